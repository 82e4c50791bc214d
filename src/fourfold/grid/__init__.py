"""Grids of runs on memory tasks: what to run, running it, and keeping what came out."""

from fourfold.grid.cell import Cell, run_cell
from fourfold.grid.config import Grid, read_grid
from fourfold.grid.schedule import Schedule, Shard

__all__ = ["Cell", "Grid", "Schedule", "Shard", "read_grid", "run_cell"]
