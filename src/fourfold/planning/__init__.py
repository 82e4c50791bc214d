"""What a training run will take, before it is begun."""

from fourfold.planning.plan import Plan, make_plan
from fourfold.planning.speed import Speed, measure_speed

__all__ = ["Plan", "Speed", "make_plan", "measure_speed"]
