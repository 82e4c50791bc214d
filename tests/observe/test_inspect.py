"""The page of a reading, in a real browser, and the command that writes it."""

from __future__ import annotations

import json
import re
import shutil
import struct

import pytest
import torch
from typer.testing import CliRunner

from fourfold import ByteTokenizer, FourfoldConfig, FourfoldForCausalLM, Session
from fourfold.cli import app
from fourfold.data.words import Words
from fourfold.observe.ablation import ablate
from fourfold.observe.events import Event, events_of
from fourfold.observe.inspection import inspect_reading, many_readings
from fourfold.observe.marks import marked
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


def invoke(*arguments):
    return CliRunner().invoke(app, ["inspect", *map(str, arguments)])


@pytest.fixture(scope="module")
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


def held(path):
    """The data of a page."""
    text = path.read_text(encoding="utf-8")
    found = re.search(r"id='data'>(.*?)</script>", text, re.DOTALL)
    return json.loads(found[1])


def test_a_task_is_read_and_answered_with_its_events(saved, tmp_path):
    out = tmp_path / "new" / "page.html"
    done = invoke(saved / "symbols", "--task", "overwrite", "--example", 3, "--out", out)
    assert done.exit_code == 0, done.output
    data = held(out)
    task = make_task("overwrite")
    example = Source(task).example("iid", 3)
    tokens, events = events_of(task, example, example.questions[0])
    assert data["words"] == [task.word(token) for token in tokens]
    assert [event["kind"] for event in data["events"]] == [event.kind for event in events]
    assert [(at["index"], at["kind"]) for at in data["layers"]] == [
        (0, "atpm"),
        (2, "gated_deltanet"),
    ]
    for at in data["layers"]:
        for quantity in at["quantities"].values():
            assert len(quantity["values"]) == len(tokens)
            assert len(quantity["values"][0]) == at["heads"] == 2
    assert data["around"]["0"]["update"]["count"] > 10
    items = data["readable"]["0"]["items"]
    written = [i for i, e in enumerate(events) if e.kind in ("first write", "update")]
    assert {item["place"] for item in items} >= {
        i for i in written if i and events[i - 1] == events[i]
    }
    assert len(data["readable"]["0"]["values"]) == len(items)
    assert "The model answers:" in data["lead"][1]
    assert [(row["layer"], row["head"]) for row in data["states"]] == [
        (0, 0),
        (0, 1),
        (2, 0),
        (2, 1),
    ]
    assert all(1 <= row["rank"] <= row["of"] for row in data["states"])


def test_a_page_needs_no_network(saved, tmp_path):
    invoke(saved / "symbols", "--task", "overwrite", "--out", tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    text = text.replace("http://www.w3.org/2000/svg", "")  # a name, nothing that is fetched
    assert not re.search(r"https?://|<link|<img|src=|@import|fetch\(", text)


def test_text_is_shown_as_it_is_whatever_it_holds(saved, tmp_path):
    text = "Tom & <b>Ann</b></script> live in Paris, and Paris is là."
    out = tmp_path / "page.html"
    done = invoke(saved / "bytes", "--text", text, "--mark", "place=Paris", "--out", out)
    assert done.exit_code == 0, done.output
    data = held(out)
    raw = text.encode()
    assert len(data["words"]) == len(raw)
    places = [i for i, event in enumerate(data["events"]) if event["kind"] == "place"]
    assert places == [m.start() + k for m in re.finditer(b"Paris", raw) for k in range(5)]
    assert data["around"]["0"]["place"]["count"] == 2
    assert data["readable"]["0"]["items"]


def test_a_session_is_read_on_or_shown_by_itself(saved, tmp_path):
    folder = saved / "bytes"
    model = FourfoldForCausalLM.from_pretrained(folder)
    session = Session(model, ByteTokenizer())
    session.read("Alice lives in Paris.")
    session.save(tmp_path / "alice.session")
    out = tmp_path / "page.html"
    done = invoke(folder, "--session", tmp_path / "alice.session", "--text", " Alice", "--out", out)
    assert done.exit_code == 0, done.output
    data = held(out)
    assert "".join(data["words"]) == " Alice"
    assert any("Behind 21 tokens of alice.session" in line for line in data["lead"])
    session.read(" Alice")
    norms = session.state["layers.0.memory"][0].flatten(-2).norm(dim=-1)
    assert data["layers"][0]["quantities"]["state_norm"]["values"][-1] == pytest.approx(
        norms.tolist(), rel=1e-3
    )
    done = invoke(folder, "--session", tmp_path / "alice.session", "--out", out)
    assert done.exit_code == 0, done.output
    data = held(out)
    assert data["layers"] == []
    assert len(data["states"]) == 4


@pytest.mark.parametrize(
    ("model", "arguments", "message"),
    [
        ("bytes", (), "Give one of --text, --file and --task, or --session"),
        ("bytes", ("--text", "a", "--task", "copy"), "Give one of --text, --file and --task"),
        ("bytes", ("--text", ""), "The text holds no token"),
        ("bytes", ("--text", "a", "--ablate"), "they need questions"),
        ("bytes", ("--text", "a", "--mark", "b"), "A mark must be NAME=TEXT"),
        ("bytes", ("--text", "a", "--mark", "x=b"), "The mark x=b occurs nowhere"),
        ("bytes", ("--task", "overwrite"), "has 90 symbols and the model 259"),
        ("symbols", ("--task", "overwrit"), "Did you mean 'overwrite'?"),
        ("symbols", ("--task", "overwrite", "--question", "99"), "question must be less than"),
        ("symbols", ("--task", "overwrite", "--mark", "a=b"), "go with text, not with --task"),
        ("symbols", ("--task", "overwrite", "--split", "odd"), "Did you mean 'ood'?"),
    ],
)
def test_what_cannot_be_inspected_is_a_sentence(saved, tmp_path, model, arguments, message):
    out = tmp_path / "page.html"
    refused = invoke(saved / model, *arguments, "--out", out)
    assert refused.exit_code == 1, refused.output
    assert message in refused.output.replace("\n", " ")
    assert not out.exists()


@pytest.fixture(scope="module")
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


@pytest.fixture(scope="module")
def written(saved, tmp_path_factory):
    """A page with all of its parts."""
    task = make_task("overwrite")
    model = FourfoldForCausalLM.from_pretrained(saved / "symbols").eval()
    example = Source(task).example("iid", 2)
    tokens, events = events_of(task, example, example.questions[0])
    data = inspect_reading(
        model,
        tokens,
        [task.word(token) for token in tokens],
        events,
        title="A model reads",
        around=many_readings(model, task, examples=8),
    )
    data["ablation"] = ablate(model, task, examples=4)
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(page(data), encoding="utf-8")
    return path


def colours(browser):
    return browser.execute_script(
        "return [...document.querySelectorAll('#text span')].map(s => s.style.background)"
    )


def opened(browser, path, width=1280):
    browser.set_window_size(width, 900)
    browser.get(path.as_uri())
    assert browser.get_log("browser") == []


def test_choosing_a_head_a_layer_or_a_quantity_changes_the_colours(browser, written):
    opened(browser, written)
    before = colours(browser)
    assert len(before) == len(held(written)["words"])
    browser.find_element("css selector", "#head button[data-head='1']").click()
    second = colours(browser)
    assert second != before
    browser.find_element("css selector", "#quantity option[value='beta_v']").click()
    assert colours(browser) != second
    browser.find_element("css selector", "#quantity option[value='alpha']").click()
    browser.find_element("css selector", "#heads button[data-layer='1'][data-head='0']").click()
    assert browser.find_element("id", "layer").get_property("value") == "1"
    assert not browser.find_element("id", "phase-section").is_displayed()
    assert browser.get_log("browser") == []


def test_a_token_can_be_chosen_by_mouse_and_by_keyboard(browser, written):
    opened(browser, written)
    browser.find_element("id", "t4").click()
    table = browser.find_element("id", "token")
    data = held(written)
    assert table.text.startswith(f"token 4: {data['words'][4]}")
    text = browser.find_element("id", "text")
    text.send_keys("\ue014")  # arrow to the right
    assert table.text.startswith("token 5:")
    text.send_keys("\ue010")  # to the end
    assert table.text.startswith(f"token {len(data['words']) - 1}:")
    shown = data["layers"][0]["quantities"]["rho"]["values"][-1]
    assert all(f"{value:.3f}" in table.text for value in shown)
    text.send_keys("h")
    pressed = browser.find_element("css selector", "#head button[aria-pressed='true']")
    assert pressed.text == "1"
    text.send_keys("l")
    assert browser.find_element("id", "layer").get_property("value") == "1"
    assert browser.get_log("browser") == []


def test_every_figure_is_drawn_and_hovering_tells_numbers(browser, written):
    opened(browser, written)
    data = held(written)
    for selector, count in (
        ("#phase circle[data-token]", len(data["words"])),
        ("#around polygon", 1),
        ("#heads svg", 2),
    ):
        assert len(browser.find_elements("css selector", selector)) == count
    rows = data["readable"]["0"]["items"]
    cells = browser.find_elements("css selector", "#readable rect")
    assert len(cells) > sum(len(data["words"]) - row["place"] for row in rows)
    browser.execute_script(
        "document.querySelector('#readable rect').dispatchEvent("
        "new PointerEvent('pointermove', {clientX: 50, clientY: 50}))"
    )
    assert re.search(r"k\d+ v\d+ after token \d+: .* -?\d", browser.find_element("id", "tip").text)
    assert "What if it were held?" in browser.page_source


@pytest.mark.parametrize("width", [1280, 500])
def test_a_page_fits_the_screen_and_can_be_photographed(browser, written, tmp_path, width):
    """500 pixels is the narrowest window that Chromium opens; a phone's page is narrower still, and
    is laid out in a frame."""
    opened(browser, written, width)
    size = "return [document.documentElement.scrollWidth, window.innerWidth]"
    content, window = browser.execute_script(size)
    assert content <= window
    photo = tmp_path / "page.png"
    browser.save_screenshot(str(photo))
    png = photo.read_bytes()
    assert struct.unpack(">I", png[16:20])[0] >= width - 20
    frame = tmp_path / "phone.html"
    frame.write_text(
        f"<iframe src='{written.as_uri()}' width='360' height='700'></iframe>", encoding="utf-8"
    )
    browser.get(frame.as_uri())
    browser.switch_to.frame(0)
    content, window = browser.execute_script(size)
    assert window == 360
    assert content <= window
    browser.switch_to.default_content()


def test_a_state_alone_is_a_page_too(browser, saved, tmp_path):
    model = FourfoldForCausalLM.from_pretrained(saved / "bytes")
    data = inspect_reading(model, [], [], [], title="Empty", cache=primed(model))
    path = tmp_path / "page.html"
    path.write_text(page(data), encoding="utf-8")
    opened(browser, path)
    assert "effective rank" in browser.page_source


def primed(model):
    cache = model.new_cache()
    model(torch.tensor([[1, 2, 3]]), cache=cache)
    return cache


def test_of_a_long_text_the_end_is_shown_as_if_all_of_it_were():
    model = FourfoldForCausalLM(
        FourfoldConfig(hidden_size=16, num_attention_heads=2, layer_types=["atpm"] * 2)
    ).eval()
    tokens = torch.randint(256, (700,), generator=torch.Generator().manual_seed(3)).tolist()
    words, events = [str(token) for token in tokens], [Event("")] * 700
    whole = inspect_reading(model, tokens, words, events, title="all")
    part = inspect_reading(model, tokens, words, events, title="end", last=40)
    assert part["words"] == words[-40:]
    for at, other in zip(whole["layers"], part["layers"], strict=True):
        for name, quantity in at["quantities"].items():
            found = torch.tensor(other["quantities"][name]["values"])
            wanted = torch.tensor(quantity["values"][-40:])
            torch.testing.assert_close(found, wanted, rtol=5e-3, atol=1e-3)
    assert len(part["readable"][0]["items"]) == 20


def test_marks_stand_where_they_do_in_a_long_text_of_many_letters():
    text = "là-bas, œuf " * 30 + "Paris et là"
    words = Words(ByteTokenizer())
    tokens = words.tokens(text)
    _, events = marked(words, tokens, ["a=Paris", "b=là"])
    raw = text.encode()
    for name, mark in (("a", "Paris"), ("b", "là")):
        places = {i for i, event in enumerate(events) if event.kind == name}
        found = {
            m.start() + k
            for m in re.finditer(mark.encode(), raw)
            for k in range(len(mark.encode()))
        }
        assert places >= {place for place in found if raw[place] < 128}
        assert places <= found


def test_a_model_without_a_state_to_look_at_is_refused_also_with_a_session(tmp_path):
    model = FourfoldForCausalLM(
        FourfoldConfig(hidden_size=16, num_attention_heads=2, layer_types=["attention"])
    ).eval()
    with pytest.raises(ValueError, match="None of the model's layers"):
        inspect_reading(model, [], [], [], title="Empty", cache=primed(model))
