"""What tables and figures mean, in words."""

from __future__ import annotations

from fourfold.evaluation.scores import RESAMPLES
from fourfold.reports.tasks.results import GridResults
from fourfold.reports.tasks.scores import Measure
from fourfold.reports.tasks.table import listed
from fourfold.tasks import Split

SPLITS: dict[Split, str] = {"iid": "IID", "ood": "OOD", "stress": "Stress"}

MEASURES: dict[Measure, str] = {
    "exact_match": "Exact match",
    "token_accuracy": "Token accuracy",
    "cross_entropy": "Cross-entropy",
}

SCORES = (
    "Percent, mean over the seeds at the chosen rate; best of each row bold. With it the least and "
    "the greatest of the seeds, or in brackets the 95 % interval of the only one; then how many "
    "seeds left the plateau, of those finished. –: nothing to show yet; with it what is finished."
)

MIXTURE = (
    "Exact match in percent of the models that were trained on the mixture, on each of its tasks; "
    "mean over the seeds at the chosen rate, best of each row bold."
)

SEEDS = "Means over the seeds at the chosen rate."
MARKS = "Full lines search their own rate; thin dashed ones take that of another."

FIGURES = {
    "load": f"{SEEDS} {MARKS} Shaded: the loads of training. Where a task has many loads, a point "
    "stands for those between two powers of two. A mixture has no load of its own and is drawn by "
    "split.",
    "parts": f"{SEEDS} A model that says what was right earlier has read and not revised; one that "
    "says neither has lost it. How many parts there are of each kind stands below each panel; "
    "where there are few, a bar says little.",
    "learning-loss": f"{SEEDS} {MARKS} Behind them the range between the seeds. A run that "
    "diverged is in it as far as it came.",
    "learning-accuracy": f"{SEEDS} {MARKS} Share of tokens named right while the right answers "
    "are read.",
}
"""What each figure shows."""

DEFINITIONS = {
    "IID, OOD, Stress": "examples never trained on: at the loads of training, at about twice the "
    "most of training, and at about four times that; the table of tasks has the loads",
    "exact match": "share of questions to which all that was asked for was said and nothing else, "
    "decoded greedily, token by token, after one reading of the context",
    "token accuracy": "share of the places of an answer at which the right token was said, in the "
    "same answers",
    "cross-entropy": "nats a token of the answers while the right ones are read; less is better",
    "mixture (mixed_all)": "exact match and token accuracy are means over its tasks; "
    "cross-entropy is over all tokens",
    "mean": "over all rows of the table, each counted once, and given only if none is missing; its "
    "range is that of the means of single seeds, given if every seed has all rows",
    "interval": f"{RESAMPLES:,} bootstrap samples of whole examples of one run; it does not tell "
    "how much another seed would differ",
    "left the plateau": "said of a seed whose exact match IID is above one half; 2/3: two seeds of "
    "three learned the task and one did not",
    "chosen rate": "of the rates that are tried with a model's first seed, the one with the best "
    "exact match on the validation split, then the least cross-entropy there. That seed is among "
    "the seeds of the tables. A follower takes the rate of another model and has no search of its "
    "own, so it may do better at another rate",
    "diverged": "the loss was no longer finite; the run counts as 0 in every share and has no "
    "cross-entropy",
    "current, stale": "of parts of answers that were changed, the share at which the current "
    "version was said; of parts that have an earlier version, the share at which such a one was "
    "said",
    "untouched, empty": "of parts that no change named, and of those that hold nothing, the share "
    "said rightly",
    "state": "bytes that all layers carry for one sequence; that of attention grows with every "
    "token",
}


def rate_caption(results: GridResults) -> str:
    """What the table of rates shows."""
    rates = [f"{rate:g}" for rate in results.grid.rates]
    order = (
        f"the rates {' · '.join(rates)} in this order (div.: diverged). At an edge of the grid a "
        "rate beyond it might do better."
        if len(rates) > 1
        else f"rate {rates[0]}, the only one that was tried."
    )
    return (
        "The chosen rate; below it the exact match on the validation split, percent, at "
        f"{order} Models without a column take the rate of another; the table of models says of "
        "which."
    )


def state_caption(results: GridResults) -> str:
    """After how many tokens the state was measured."""
    lengths = sorted({result["state_bytes_at_tokens"] for result in results.cells.values()})
    return (
        f"State: what all layers carry for one sequence after {listed(lengths)} tokens; that of "
        "attention grows with every token. Means: of the tables below, exact match in percent."
    )
