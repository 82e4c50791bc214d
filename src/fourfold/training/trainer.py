"""Training a language model by a recipe, so that it can be stopped anywhere and gone on with."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
import yaml
from transformers import PreTrainedTokenizerBase

from fourfold.data.hub_order import HubOrder
from fourfold.data.lanes import Lanes
from fourfold.data.prefetch import Prefetch
from fourfold.data.prepare import Prepared, prepare
from fourfold.data.report import left_out
from fourfold.data.store_sample import StoreSample
from fourfold.data.survey import Progress, Skipped
from fourfold.data.tokenizers import load_tokenizer, vocabulary_size
from fourfold.evaluation.mode import measuring
from fourfold.files import lock, write_atomically
from fourfold.models import FourfoldCache, FourfoldForCausalLM
from fourfold.models.matching import count_parameters
from fourfold.models.registry import sources_of
from fourfold.ops.pointwise import IGNORED
from fourfold.results import provenance, read_result, refuse_other, write_result
from fourfold.sessions.fingerprint import tokenizer_of
from fourfold.training import engine
from fourfold.training.checkpoint import Checkpoint, Checkpoints, differences
from fourfold.training.clock import Clock
from fourfold.training.events import Listener, Stopped, Update
from fourfold.training.log import Log
from fourfold.training.loop import FitOptions, make_optimizer, rate_share
from fourfold.training.outcome import figures, keep_model
from fourfold.training.processes import Processes
from fourfold.training.recipe import SPECIAL_TOKENS, Recipe
from fourfold.training.state import (
    load_memory,
    load_model_tensors,
    load_optimizer_tensors,
    load_random_state,
    model_tensors,
    optimizer_tensors,
    random_state,
)
from fourfold.training.stopping import Stop, stopping
from fourfold.training.trackers import check_trackers, flat
from fourfold.training.window_loss import window_loss
from fourfold.training.writing import writing

LOG_COLUMNS = ("tokens", "loss", "bits_per_byte", "learning_rate", "gradient_norm", "seconds")
VALIDATION_COLUMNS = ("tokens", "loss", "bits_per_byte")


class Trainer:
    """A run of a recipe in a folder.

        RUN/recipe.yaml      the recipe with all its defaults
        RUN/log.csv          a row a step; RUN/validation.csv a row a validation
        RUN/checkpoints/     to go on from
        RUN/model/           the trained model and its tokenizer, at the end
        RUN/result.json      what came out, at the end
        RUN/lock             held while a run is going on, so that there is but one

    Started by ``accelerate launch`` with several processes, each makes a Trainer of its own.

    Args:
        recipe: what to do.
        folder: RUN.
        on_progress: is told how the preparation of the text goes.

    Raises:
        ValueError, OSError: sentences of the tokenizer, the text or the model.
    """

    def __init__(self, recipe: Recipe, folder: Path, on_progress: Progress | None = None) -> None:
        self.recipe, self.folder = recipe, folder
        self.training = recipe.training
        check_trackers(recipe.trackers)
        self.accelerator = engine.make_accelerator(recipe, folder)
        self.processes = Processes(self.accelerator)
        self.first = self.processes.first
        if self.training.batch_size % self.processes.count:
            raise ValueError(
                f"training.batch_size must be a multiple of the {self.processes.count} processes; "
                f"got {self.training.batch_size}."
            )
        self.tokenizer: PreTrainedTokenizerBase = load_tokenizer(recipe.tokenizer)
        # The model before the text, which may take hours.
        self.config = recipe.model.configuration(
            vocabulary_size(self.tokenizer),
            {name: getattr(self.tokenizer, name) for name in SPECIAL_TOKENS},
        )
        self.parameters = count_parameters(self.config)
        self.text = self._prepare_text(on_progress)
        torch.manual_seed(self.training.seed)
        self.plain_model = FourfoldForCausalLM(self.config)
        if self.training.gradient_checkpointing:
            self.plain_model.gradient_checkpointing_enable({"use_reentrant": False})
        self.options = FitOptions(
            steps=self.training.total_steps,
            learning_rate=self.training.learning_rate,
            warmup_steps=self.training.warmup_steps,
            final_share=self.training.final_share,
            weight_decay=self.training.weight_decay,
            gradient_clip=self.training.gradient_clip,
        )
        self.model, self.optimizer = engine.prepare(
            self.accelerator, self.plain_model, make_optimizer(self.plain_model, self.options)
        )
        self.lanes = Prefetch(self._lanes(self.text.train), recipe.data.prefetch)
        self._skipped = Skipped(), Skipped()
        self.cache = self._empty_memory()
        self.checkpoints = Checkpoints(
            folder / "checkpoints",
            keep=recipe.checkpoints.keep,
            process=self.processes.number,
            together=self.processes.together,
            anywhere=self.processes.any,
        )
        self.clock = Clock()

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What a run must share with one that it goes on with; JSON can hold it."""
        return {
            "model": self.config.identity(),
            "training": self.training.model_dump(mode="json"),
            "tokenizer": tokenizer_of(self.tokenizer),
            "text": self.text.fingerprint,
            "processes": self.processes.count,
            **sources_of(self.config.layer_types),
        }

    def run(self, listener: Listener | None = None) -> dict[str, Any]:
        """Train from the newest checkpoint, or from the start, to the end; every process calls it.

        Returns:
            the content of result.json. A run that was finished before is not done again.

        Raises:
            Stopped: on Ctrl-C or SIGTERM, after saving.
            ArithmeticError: loss or gradient is no longer finite; nothing was saved since.
            ValueError: the folder holds a run of other settings, no checkpoint that is whole, or a
                log of other columns, or another process is training in it.
            OSError: something cannot be written; the checkpoints are as they were.
        """
        listener = listener if listener is not None and self.first else Listener()
        if (result := self._finished()) is not None:
            return result
        with self._alone():
            step = self._restore(listener)
            with self.processes.together():
                if self.first:
                    path = self.folder / "recipe.yaml"
                    text = yaml.safe_dump(self.recipe.model_dump(mode="json"), allow_unicode=True)
                    with writing(path):
                        write_atomically(path, text.encode())
            listener.prepared(self, step)
            self.accelerator.init_trackers("fourfold", config=flat(self.identity))
            try:
                with stopping() as stop:
                    self._train(step, stop, listener)
                return self._finish()
            finally:
                self.lanes.close()
                self.accelerator.end_training()  # also parts the processes

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the lock of the folder, which is made if it is not there.

        Raises:
            OSError: it cannot be written.
            ValueError: another process holds it.
        """
        with ExitStack() as stack:
            with self.processes.together():
                if self.first:
                    try:
                        self.folder.mkdir(parents=True, exist_ok=True)
                        file = stack.enter_context(open(self.folder / "lock", "wb"))
                        lock(file.fileno(), wait=False)
                    except BlockingIOError as error:
                        raise ValueError(
                            f"Another process is training in {self.folder}; wait for it, stop it, "
                            "or give another output folder."
                        ) from error
                    except OSError as error:
                        raise OSError(
                            f"{self.folder} cannot be written: {error.strerror}."
                        ) from error
            yield

    def _train(self, step: int, stop: Stop, listener: Listener) -> None:
        steps = self.training.total_steps
        began = saved = step
        with self._logs(step, listener) as (log, validations):
            if self._validation_missing(step, validations):
                self._validate(step, validations, listener)
            while step < steps:
                with self.clock.updating():
                    loss, bits, norm, rate = self._update(step + 1)
                step += 1
                tokens = (step - began) * self.training.tokens_per_step
                update = Update(
                    step=step,
                    steps=steps,
                    tokens=step * self.training.tokens_per_step,
                    loss=loss,
                    bits_per_byte=bits,
                    learning_rate=rate,
                    gradient_norm=norm,
                    tokens_per_second=tokens / self.clock.updates_now,
                )
                with self.processes.together():
                    if log is not None:
                        values = {name: getattr(update, name) for name in LOG_COLUMNS[:-1]}
                        log.write(step=step, **values, seconds=self.clock.updates)
                        self.accelerator.log(values, step)
                listener.updated(update)
                # Who asks to stop may kill before long, so validation waits for the way back.
                asked = self.processes.any(stop.asked)
                if not asked and self._validation_due(step):
                    self._validate(step, validations, listener)
                    asked = self.processes.any(stop.asked)
                if asked or step % self.recipe.checkpoints.every == 0 or step == steps:
                    with self.processes.together():
                        for table in (log, validations):
                            if table is not None:
                                table.sync()
                    self._save(step, saved)
                    saved = step
                if asked:
                    self.processes.wait()
                    raise Stopped(step)

    def _validation_due(self, step: int) -> bool:
        return step % self.recipe.evaluation.every == 0 or step == self.training.total_steps

    def _validation_missing(self, step: int, validations: Log | None) -> bool:
        """Whether the run was stopped, or lost the table, before the validation after ``step``."""
        held = validations is None or (validations.last or {}).get("step") == str(step)
        return self.processes.any(not held) and step > 0 and self._validation_due(step)

    def _validate(self, step: int, validations: Log | None, listener: Listener) -> None:
        loss, bits = self.validate()
        with self.processes.together():
            if validations is not None:
                tokens = step * self.training.tokens_per_step
                validations.write(step=step, tokens=tokens, loss=loss, bits_per_byte=bits)
                self.accelerator.log({"validation_bits_per_byte": bits}, step)
        listener.validated(bits)

    def _update(self, step: int) -> tuple[float, float, float, float]:
        """Read, go back, step: loss (nats a token; bits a byte), norm of the gradient, rate."""
        device = self.accelerator.device
        windows = [next(self.lanes).to(device) for _ in range(self.training.accumulation)]
        self._count_skipped()
        counts = [torch.stack([(w.targets != IGNORED).sum().float(), w.bytes]) for w in windows]
        # A window may hold nothing to predict: ends of text alone, of texts that have no token.
        predicted, size = self.processes.total(torch.stack(counts).sum(0)).clamp(min=1e-9)
        self.model.train()
        self.optimizer.zero_grad()
        total = torch.zeros((), device=device)
        for window in windows:
            final = window is windows[-1]
            with nullcontext() if final else self.accelerator.no_sync(self.model):
                nats = window_loss(self.model, window, self.cache)
                # Several processes take the mean of their gradients; here it is to be the sum.
                self.accelerator.backward(nats * (self.processes.count / predicted))
            total += nats.detach()
        total = self.processes.total(total)
        loss = float(total / predicted)
        norm = self.accelerator.clip_grad_norm_(
            self.model.parameters(), self.training.gradient_clip
        )
        for name, value in (("loss", loss), ("norm of the gradient", float(norm))):
            if not math.isfinite(value):
                self.processes.wait()
                raise ArithmeticError(
                    f"The {name} became {value} at step {step}; that update was not made. "
                    f"{self._where_to_go_on()}"
                )
        # A function of the step alone, so that there is no schedule to keep.
        rate = self.options.learning_rate * rate_share(step - 1, self.options)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        return loss, float(total / size) / math.log(2), float(norm), rate

    def _where_to_go_on(self) -> str:
        steps = self.checkpoints.steps()
        kept = f"The checkpoint of step {steps[-1]} is kept" if steps else "There is no checkpoint"
        return f"{kept}; a smaller training.learning_rate in a new run may help."

    def validate(self) -> tuple[float, float]:
        """Nats a token and bits a byte of validation text, the same part of it each time."""
        cache = self._empty_memory()
        total = torch.zeros(3, dtype=torch.float64)
        with measuring(self.model):
            for window in self._lanes(self._validation_sample()):
                window = window.to(self.accelerator.device)
                total[0] += float(window_loss(self.model, window, cache))
                total[1] += int((window.targets != IGNORED).sum())
                total[2] += float(window.bytes)
        nats, predicted, read = self.processes.total(total).tolist()
        return nats / predicted, nats / math.log(2) / read

    def _validation_sample(self) -> StoreSample:
        tokens = self.recipe.evaluation.tokens
        longest = max(self.training.sequence_length, tokens // self.training.batch_size)
        return StoreSample(self.text.validation, tokens=tokens, longest=longest)

    def _count_skipped(self) -> None:
        """Take note of the records of a stream that all processes have left out so far."""
        if not isinstance(self.text.train, HubOrder):
            return
        order = self.lanes.position.order
        own = [Skipped.of(order[kind]) for kind in ("bad", "empty")]
        counts = self.processes.total(torch.tensor([skipped.count for skipped in own]))
        bad, empty = (
            Skipped(int(count), skipped.first) for count, skipped in zip(counts, own, strict=True)
        )
        self._skipped = bad, empty

    def left_out(self) -> list[str]:
        """Sentences about records of a stream that were left out, in all processes since the run
        was begun, with the first of this one; those of files are in ``text.report``."""
        return left_out(*self._skipped)

    def _prepare_text(self, on_progress: Progress | None) -> Prepared:
        """The first process prepares; the others find it done."""
        prepared = None
        for turn in (True, False):
            with self.processes.together():
                if self.first == turn:
                    prepared = prepare(
                        self.recipe.data,
                        self.tokenizer,
                        seed=self.training.seed,
                        shuffle=self.training.shuffle,
                        rank=self.processes.number,
                        world_size=self.processes.count,
                        on_progress=on_progress,
                    )
        assert prepared is not None
        return prepared

    def _lanes(self, order: Any) -> Lanes:
        """The lanes of all processes, if all read one order; otherwise those of this one."""
        own = self.training.batch_size // self.processes.count
        start = self.processes.number * own
        shared = not isinstance(order, HubOrder)
        return Lanes(
            order,
            lanes=self.training.batch_size if shared else own,
            length=self.training.sequence_length,
            memory=self.training.memory,
            mine=range(start, start + own) if shared else None,
        )

    def _empty_memory(self) -> FourfoldCache | None:
        return None if self.training.memory == "window" else self.plain_model.new_cache()

    @contextmanager
    def _logs(self, step: int, listener: Listener) -> Iterator[tuple[Log | None, Log | None]]:
        """log.csv and validation.csv up to ``step``; nothing in the other processes."""
        with ExitStack() as stack:
            log = validations = None
            with self.processes.together():
                if self.first:
                    log, validations = (
                        stack.enter_context(closing(Log(self.folder / name, columns, step=step)))
                        for name, columns in (
                            ("log.csv", LOG_COLUMNS),
                            ("validation.csv", VALIDATION_COLUMNS),
                        )
                    )
                    if step and (log.last or {}).get("step") != str(step):
                        listener.noted(
                            f"{log.path} does not reach to step {step:,}, after which the run "
                            "goes on; the rows in between are lost."
                        )
            yield log, validations

    def _save(self, step: int, saved: int) -> None:
        memory = {} if self.cache is None else self.cache.named_tensors()
        checkpoint = Checkpoint(
            step=step,
            run=self.identity,
            seconds=self.clock.state(),
            model=model_tensors(self.plain_model),
            optimizer=optimizer_tensors(self.plain_model, self._plain_optimizer),
            tensors={name: tensor.detach().cpu() for name, tensor in memory.items()},
            position={"lanes": self.lanes.state(), "random": random_state()},
        )
        try:
            self.checkpoints.write(checkpoint)
        except OSError as error:
            kept = f"The checkpoint of step {saved} is as it was." if saved else ""
            raise OSError(
                f"The checkpoint of step {step} cannot be written to {self.checkpoints.folder}: "
                f"{error}. {kept} Make room and start the same command again to go on."
            ) from error

    def _restore(self, listener: Listener) -> int:
        """Take over the newest checkpoint; the step that it was made after, or 0."""
        with self.processes.together():
            checkpoint = self.checkpoints.latest(self.identity, listener.noted)
        self.clock = Clock(**(checkpoint.seconds if checkpoint else {}))
        if checkpoint is None:
            return 0
        load_model_tensors(self.plain_model, checkpoint.model)
        load_optimizer_tensors(self.plain_model, self._plain_optimizer, checkpoint.optimizer)
        position = checkpoint.position
        self.lanes.restore(position["lanes"])
        load_random_state(position["random"])
        if self.cache is not None:
            load_memory(self.plain_model, self.cache, checkpoint.tensors)
        return checkpoint.step

    @property
    def _plain_optimizer(self) -> torch.optim.Optimizer:
        """Without what Accelerate puts around it."""
        plain: torch.optim.Optimizer = getattr(self.optimizer, "optimizer", self.optimizer)
        return plain

    def _finished(self) -> dict[str, Any] | None:
        """The result of a run that is done.

        Raises:
            ValueError: it is of other settings.
        """
        path = self.folder / "result.json"
        result = read_result(path)
        if result is not None:
            refuse_other(self.folder, differences(result["run"], self.identity))
        return result

    def _finish(self) -> dict[str, Any]:
        """Keep the model and what came out."""
        weights = model_tensors(self.plain_model)
        self._count_skipped()
        bad, empty = self._skipped
        report = self.text.report
        with self.processes.together():
            if self.first:
                keep_model(self.folder, self.plain_model, weights, self.tokenizer)
                path = self.folder / "result.json"
                tokens = self.training.total_steps * self.training.tokens_per_step
                found = {
                    "run": self.identity,
                    "recipe": self.recipe.model_dump(mode="json"),
                    "parameters": self.parameters,
                    **figures(self.folder, tokens=tokens, clock=self.clock),
                    "validation_tokens": self._validation_sample().tokens,
                    "left_out": {
                        "prepared": {"bad": report.bad, "empty": report.empty},
                        "streamed": {"bad": bad.count, "empty": empty.count},
                    },
                    **provenance(),
                }
                with writing(path):
                    write_result(path, found)
        self.processes.wait()
        result = self._finished()
        assert result is not None
        return result
