"""Which cells of a grid are to be run, and which can be run by now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fourfold.grid.cell import Cell
from fourfold.grid.config import Grid


@dataclass(frozen=True)
class Shard:
    """Part ``index`` of ``count`` of a grid, from 1.

    What hangs together stays together: on one task, all runs of a model and of those that take
    their rate from it. Shards never wait for each other.
    """

    index: int = 1
    count: int = 1

    @classmethod
    def parse(cls, text: str) -> Shard:
        """From "I/N".

        Raises:
            ValueError: a sentence.
        """
        try:
            index, count = map(int, text.split("/"))
        except ValueError:
            index = count = 0
        if not 1 <= index <= count:
            raise ValueError(f"shard must be I/N with 1 ≤ I ≤ N, such as 2/8; got {text!r}.")
        return cls(index, count)


@dataclass
class Schedule:
    """The order in which a grid is run.

    First the rates of all models on all tasks with their first seed, so that there is a whole table
    early; then the other seeds at the best rate; then the models that take the rate of another.

    Attributes:
        grid: what is run.
        shard: the part of it that is run here.
        results: what is finished, to be added to.
    """

    grid: Grid
    shard: Shard = field(default_factory=Shard)
    results: dict[Cell, Mapping[str, Any]] = field(default_factory=dict)

    def searches(self) -> Iterator[tuple[str, str]]:
        """Pairs of a task and a model that searches its own rate, of this shard."""
        leaders = [name for name, entry in self.grid.models.items() if entry.rate_of is None]
        pairs = [(task, model) for task in self.grid.tasks for model in leaders]
        yield from pairs[self.shard.index - 1 :: self.shard.count]

    def sweep(self, task: str, model: str) -> list[Cell]:
        """The cells among which a model's rate is chosen."""
        seed = self.grid.seeds_of(model)[0]
        return [Cell(task, model, rate, seed) for rate in self.grid.rates]

    def best_rate(self, task: str, model: str) -> float | None:
        """The rate of a model on a task, its own or that of the model it follows; None if some of
        its sweep is still to be run."""
        sweep = self.sweep(task, self.grid.models[model].rate_of or model)
        if any(cell not in self.results for cell in sweep):
            return None
        return max(sweep, key=lambda cell: merit(self.results[cell])).rate

    def known(self) -> list[Cell]:
        """All cells that are known by now, finished or not, in the order in which to run them."""
        searches = list(self.searches())
        cells = [cell for pair in searches for cell in self.sweep(*pair)]
        rates = {(task, model): self.best_rate(task, model) for task, model in searches}
        for task, model in searches:
            rate = rates[task, model]
            if rate is not None:
                cells += [Cell(task, model, rate, seed) for seed in self.grid.seeds_of(model)[1:]]
        for task, model in searches:
            rate = rates[task, model]
            for follower in self._followers(model):
                if rate is not None:
                    cells += [
                        Cell(task, follower, rate, seed) for seed in self.grid.seeds_of(follower)
                    ]
        return cells

    def open(self) -> list[Cell]:
        """The cells that can be run by now and are not finished."""
        return [cell for cell in self.known() if cell not in self.results]

    def total(self) -> int:
        """Cells of the shard, those included that are not known yet."""
        return sum(
            len(self.grid.rates)
            + len(self.grid.seeds_of(model)[1:])
            + sum(len(self.grid.seeds_of(follower)) for follower in self._followers(model))
            for _, model in self.searches()
        )

    def _followers(self, model: str) -> list[str]:
        return [name for name, entry in self.grid.models.items() if entry.rate_of == model]


def merit(result: Mapping[str, Any]) -> tuple[float, float]:
    """By what a rate is chosen: exact match on the validation split, then its cross-entropy."""
    if result["diverged_at"] is not None:
        return (-1.0, 0.0)
    validation = result["validation"]
    return (validation["exact_match"], -validation["cross_entropy"])
