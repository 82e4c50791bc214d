"""The benchmarks of EleutherAI's lm-evaluation-harness (lm-eval), asked of our models."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from fourfold.data.tokenizers import end_of_text
from fourfold.models import FourfoldForCausalLM
from fourfold.settings import near

WHOLE = 2**31 - 1
"""Tokens of context; no text has as many."""


def harness_model(
    model: FourfoldForCausalLM,
    tokenizer: PreTrainedTokenizerBase,
    *,
    batch_size: int = 1,
    max_length: int | None = None,
) -> Any:
    """lm-eval's own ``HFLM`` around a model, set up for what ours need.

    Text is read as in training, with no special tokens around it. Where a task gives no context,
    the end of text stands for it: a model needs a token to predict the first one from, and this is
    the one that it has seen between documents. What is generated ends there, too.

    Args:
        model: stays where it is; ``HFLM`` turns it to evaluation mode.
        tokenizer: its own; gets a padding token if it has none.
        batch_size: texts side by side.
        max_length: tokens that are read at most, the last of a longer text; None reads all, for a
            memory has no longest context, where ``HFLM`` would take the last 2,048.

    Returns:
        an ``lm_eval.api.model.LM``.

    Raises:
        ValueError: the tokenizer has no end of text, or lm-eval is not installed.
    """
    base = _lm_eval("lm_eval.models.huggingface").HFLM
    end = end_of_text(tokenizer)

    class EndingHFLM(base):  # type: ignore[valid-type, misc]
        """A configuration may name no end of text; the tokenizer does."""

        def _model_generate(self, *args: Any, **kwargs: Any) -> Any:
            return super()._model_generate(*args, **{"eos_token_id": end} | kwargs)

    with _quiet("lm_eval.models.huggingface"):
        return EndingHFLM(
            model,
            backend="causal",
            tokenizer=tokenizer,
            batch_size=batch_size,
            max_length=max_length or WHOLE,
            add_bos_token=False,
            prefix_token_id=end,
        )


def run_harness(
    model: FourfoldForCausalLM,
    tokenizer: PreTrainedTokenizerBase,
    tasks: Sequence[str],
    *,
    include_path: Path | None = None,
    limit: int | None = None,
    batch_size: int = 1,
    max_length: int | None = None,
) -> dict[str, Any]:
    """``lm_eval.simple_evaluate`` on tasks of lm-eval or of one's own.

    Args:
        tasks: names of tasks, groups or tags.
        include_path: folder of tasks of one's own, as YAML files in lm-eval's form.
        limit: only so many examples of each task.
        batch_size, max_length: see ``harness_model``.

    Returns:
        what lm-eval returns: "results", "n-samples", "versions", "configs" and so on.

    Raises:
        ValueError: there is no such task, the tokenizer has no end of text, or lm-eval is not
            installed.
    """
    manager = _task_manager(tasks, include_path)
    results: dict[str, Any] = _lm_eval("lm_eval").simple_evaluate(
        harness_model(model, tokenizer, batch_size=batch_size, max_length=max_length),
        tasks=list(tasks),
        batch_size=batch_size,
        limit=limit,
        task_manager=manager,
        log_samples=False,
    )
    return results


def _task_manager(tasks: Sequence[str], include_path: Path | None) -> Any:
    """One that knows ``tasks``; it looks through lm-eval's own, thousands of files, if it must."""
    manager_of = _lm_eval("lm_eval.tasks").TaskManager
    if include_path is not None:
        if not include_path.is_dir():
            raise ValueError(f"include_path must be a folder of tasks; got {include_path}.")
        manager = manager_of(include_path=str(include_path), include_defaults=False)
        if set(tasks) <= set(manager.all_subtasks):
            return manager
    manager = manager_of(include_path=None if include_path is None else str(include_path))
    for task in tasks:
        if task not in manager.task_index:
            place = "" if include_path is None else f" or of {include_path}"
            raise ValueError(
                f"tasks must be tasks of lm-eval{place}; got {task!r}."
                f"{near(task, manager.all_tasks)}"
            )
    return manager


@contextmanager
def _quiet(name: str) -> Iterator[None]:
    """Without the warnings of the logger ``name``: that a model is given in person is meant so."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _lm_eval(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as missing:
        raise ValueError(
            f"Running lm-eval's tasks needs {missing.name}, which is not installed: "
            'pip install "fourfold[lm-eval]".'
        ) from missing
