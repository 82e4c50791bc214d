"""Models, a page and a real browser for the microscope's tests."""

from __future__ import annotations

import shutil

import pytest
import torch

from fourfold import ByteTokenizer, FourfoldConfig, FourfoldForCausalLM
from fourfold.observe.ablation import ablate
from fourfold.observe.events import events_of
from fourfold.observe.inspection import inspect_reading, many_readings
from fourfold.observe.items import asked_items, stored_items
from fourfold.reports.inspection import page
from fourfold.tasks import Source, make_task

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    """A model of the size of a task's vocabulary, and one of bytes with its tokenizer."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("models")
    task = make_task("overwrite")
    config = FourfoldConfig(
        vocab_size=task.vocab_size,
        hidden_size=16,
        num_attention_heads=2,
        layer_types=["atpm", "attention", "gated_deltanet"],
        initializer_range=0.3,
        eos_token_id=None,
    )
    model = FourfoldForCausalLM(config)
    with torch.no_grad():  # ρ and λ start at 0.5 everywhere
        next(model.memories()).controller.weight.normal_()
    model.save_pretrained(folder / "symbols")
    config = FourfoldConfig(hidden_size=16, num_attention_heads=2, layer_types=["atpm"] * 2)
    FourfoldForCausalLM(config).save_pretrained(folder / "bytes")
    ByteTokenizer().save_pretrained(folder / "bytes")
    return folder


@pytest.fixture(scope="session")
def browser():
    if BROWSER is None or DRIVER is None:
        pytest.skip("needs chromium and chromedriver (Debian: chromium, chromium-driver)")
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture(scope="session")
def written(saved, tmp_path_factory):
    """A page with all of its parts."""
    task = make_task("overwrite")
    model = FourfoldForCausalLM.from_pretrained(saved / "symbols").eval()
    example = Source(task).example("iid", 2)
    tokens, events = events_of(task, example, example.questions[0])
    words = [task.word(token) for token in tokens]
    data = inspect_reading(
        model,
        tokens,
        words,
        events,
        title="A model reads",
        items=[*asked_items(words, events), *stored_items(words, events)],
        around=many_readings(model, task, examples=8),
    )
    data["ablation"] = ablate(model, task, examples=4)
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(page(data), encoding="utf-8")
    return path
