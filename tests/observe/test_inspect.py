"""The command that writes the page of a reading, and what the page holds."""

from __future__ import annotations

import re

import pytest
import torch
from inspected import held, invoke, primed
from test_observe import model_of

from fourfold import ByteTokenizer, FourfoldConfig, FourfoldForCausalLM, Session
from fourfold.observe.events import Event, events_of
from fourfold.observe.inspection import inspect_reading
from fourfold.observe.intervening import intervene
from fourfold.observe.items import Item
from fourfold.tasks import Source, make_task


def written_values(words, events):
    kinds = ("untouched write", "first write", "update")
    return [i for i, event in enumerate(events) if event.kind in kinds and words[i][0] == "v"]


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
    stored = [item for item in items if item["question"] is None]
    assert [item["places"] for item in stored] == [
        [place] for place in written_values(data["words"], events)
    ]
    asked = [place for place, event in enumerate(events) if event.kind == "question"][-1]
    right = [item for item in items if item["role"] == "right"]
    assert right[0]["question"] == asked
    assert data["words"][right[0]["places"][0]] == task.word(example.questions[0].answer[0])
    assert len(data["readable"]["0"]["values"]) == len(items)
    assert "The model answers:" in data["lead"][0]
    assert (
        data["title"] == "ATPM + attention + Gated DeltaNet (3 layers) reads overwrite, example 3"
    )
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
    assert "".join(data["words"]) == text
    assert len(data["words"]) == len(raw)
    places = [i for i, event in enumerate(data["events"]) if event["kind"] == "place"]
    assert places == [m.start() + k for m in re.finditer(b"Paris", raw) for k in range(5)]
    assert data["around"]["0"]["place"]["count"] == 2
    items = data["readable"]["0"]["items"]
    assert [item["label"] for item in items] == ["Paris", "Paris"]
    assert [item["places"] for item in items] == [places[:5], places[5:]]


def test_every_mark_has_a_row_also_one_that_is_called_like_an_event_of_a_task(saved, tmp_path):
    out = tmp_path / "page.html"
    text = "Ann lives in Paris."
    marks = ("--mark", "place=Paris", "--mark", "first write=lives")
    done = invoke(saved / "bytes", "--text", text, *marks, "--out", out)
    assert done.exit_code == 0, done.output
    items = held(out)["readable"]["1"]["items"]
    assert [(item["label"], item["kind"], item["places"]) for item in items] == [
        ("lives", "first write", list(range(4, 9))),
        ("Paris", "place", list(range(13, 18))),
    ]


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
    assert data["title"] == "ATPM (2 layers) reads “Alice”"
    assert data["first"] == 21
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
    assert data["title"] == "The memory of ATPM (2 layers)"
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
        ("bytes", ("--text", "a", "--layers", "0-1"), "layers must be numbers with commas between"),
        ("symbols", ("--task", "overwrite", "--layers", "0,1"), "layers must hold a delta-rule"),
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


def test_the_layers_that_are_named_are_shown_alone(saved, tmp_path):
    out = tmp_path / "page.html"
    done = invoke(saved / "symbols", "--task", "overwrite", "--layers", "2", "--out", out)
    assert done.exit_code == 0, done.output
    data = held(out)
    assert [at["index"] for at in data["layers"]] == [2]
    assert list(data["around"]) == list(data["readable"]) == ["2"]
    assert {row["layer"] for row in data["states"]} == {2}
    assert "Layers that are shown: 2, of 3." in data["lead"][1]


@pytest.mark.parametrize(
    ("text", "name", "title"),
    [
        ("Ann  lives\nin Paris.", None, "ATPM (2 layers) reads “Ann lives in Paris.”"),
        ("word, " * 20, None, f"ATPM (2 layers) reads “{('word, ' * 7)[:39]}…”"),
        ("Ann", "notes.txt", "ATPM (2 layers) reads notes.txt"),
    ],
)
def test_a_page_is_called_by_the_model_and_what_it_read(saved, tmp_path, text, name, title):
    given = ("--text", text)
    if name:
        (tmp_path / name).write_text(text)
        given = ("--file", tmp_path / name)
    out = tmp_path / "page.html"
    done = invoke(saved / "bytes", *given, "--out", out)
    assert done.exit_code == 0, done.output
    assert held(out)["title"] == title


def test_what_is_left_out_of_a_long_text_is_said_and_places_are_those_of_the_memory(
    saved, tmp_path
):
    out, folder = tmp_path / "page.html", saved / "bytes"
    session = Session(FourfoldForCausalLM.from_pretrained(folder), ByteTokenizer())
    session.read("Alice.")
    session.save(tmp_path / "alice.session")
    text = "Paris, " * 10 + "é" * 4
    given = ("--session", tmp_path / "alice.session", "--text", text, "--mark", "place=Paris")
    done = invoke(folder, *given, "--last", "34", "--out", out)
    assert done.exit_code == 0, done.output
    data = held(out)
    cut = 70 + 8 - 34
    assert data["first"] == 6 + cut
    # The first mark that is shown is cut in its middle.
    assert data["left_out"] == {"tokens": cut, "events": 6}
    assert data["readable"]["0"]["items"][0]["places"] == [0, 1, 2]
    written = out.read_text(encoding="utf-8")
    assert "44 tokens before were read and are not shown, among them 6 events" in written
    assert "Shown are tokens 50 to 83 of all that the memory has read." in written


def test_what_is_shown_begins_with_a_whole_letter(saved, tmp_path):
    out = tmp_path / "page.html"
    invoke(saved / "bytes", "--text", "aéé", "--last", "3", "--out", out)
    assert held(out)["words"] == ["é", ""]
    assert held(out)["first"] == 3


def test_a_place_that_is_shown_is_the_one_where_an_intervention_starts():
    model = model_of("atpm", vocab_size=90)
    cache = primed(model)
    tokens = torch.randint(90, (20,), generator=torch.Generator().manual_seed(1)).tolist()
    words, events = ["x"] * 20, [Event("")] * 20
    with intervene(model, layer=0, start=3 + 12, rho=0.0):
        data = inspect_reading(model, tokens, words, events, title="", cache=cache, last=15)
    held_from = 15 - data["first"]
    rho = data["layers"][0]["quantities"]["rho"]["values"]
    assert data["first"] == 3 + 5
    assert all(row == [0, 0] for row in rho[held_from:])
    assert all(min(row) > 0 for row in rho[:held_from])


def test_of_many_items_the_last_are_shown_and_the_others_counted():
    model = model_of("atpm", vocab_size=90)
    events = [Event("mark", str(place), place) for place in range(60)]
    items = [Item(event, (event.number,), event.item) for event in events]
    data = inspect_reading(model, [1] * 60, ["x"] * 60, events, title="", items=items)
    shown = data["readable"][0]
    assert [item["places"] for item in shown["items"]] == [[place] for place in range(20, 60)]
    assert shown["left_out"] == 20


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


def test_a_model_without_a_state_to_look_at_is_refused_also_with_a_session(tmp_path):
    model = FourfoldForCausalLM(
        FourfoldConfig(hidden_size=16, num_attention_heads=2, layer_types=["attention"])
    ).eval()
    with pytest.raises(ValueError, match="None of the model's layers"):
        inspect_reading(model, [], [], [], title="Empty", cache=primed(model))
