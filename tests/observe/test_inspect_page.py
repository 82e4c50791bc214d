"""The page of a reading in a real browser."""

from __future__ import annotations

import re
import struct

import pytest
from inspected import held, invoke, opened, primed

from fourfold import FourfoldForCausalLM
from fourfold.observe.events import Event
from fourfold.observe.inspection import inspect_reading
from fourfold.reports.inspection import page
from fourfold.reports.inspection.tables import ablation_table

pytest.importorskip("selenium", reason="needs selenium")
from selenium.webdriver import ActionChains, Keys
from selenium.webdriver.support.ui import WebDriverWait


def colours(browser):
    return browser.execute_script(
        "return [...document.querySelectorAll('#text span')].map(s => s.style.background)"
    )


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


def test_a_token_can_be_chosen_by_mouse_by_keyboard_and_by_number(browser, written):
    opened(browser, written)
    browser.find_element("id", "t4").click()
    table = browser.find_element("id", "token")
    data = held(written)
    assert table.text.startswith(f"token 4: {data['words'][4]}")
    text = browser.find_element("id", "text")
    text.send_keys(Keys.ARROW_RIGHT)
    assert table.text.startswith("token 5:")
    text.send_keys(Keys.ARROW_DOWN)
    assert table.text.startswith("token 15:")
    text.send_keys(Keys.END)
    assert table.text.startswith(f"token {len(data['words']) - 1}:")
    shown = data["layers"][0]["quantities"]["rho"]["values"][-1]
    assert all(f"{value:.3f}" in table.text for value in shown)
    text.send_keys("h")
    pressed = browser.find_element("css selector", "#head button[aria-pressed='true']")
    assert pressed.text == "1"
    text.send_keys("l")
    assert browser.find_element("id", "layer").get_property("value") == "1"
    number = browser.find_element("id", "at")
    number.clear()
    number.send_keys("7", Keys.ENTER)
    assert table.text.startswith("token 7:")
    browser.find_element("id", "back").click()
    assert table.text.startswith("token 6:")
    assert browser.get_log("browser") == []


def test_the_help_names_every_key(browser, written):
    opened(browser, written)
    keys = [key.text for key in browser.find_elements("css selector", ".keys kbd")]
    assert keys == ["Tab", "←", "→", "↑", "↓", "Home", "End", "h", "l", "q", "e", "f"]
    assert "by ten" in browser.find_element("css selector", ".keys").text


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
    cells = browser.find_elements("css selector", "#readable .cell")
    assert len(cells) == sum(len(data["words"]) - row["places"][0] for row in rows)
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", cells[-1])
    ActionChains(browser).move_to_element(cells[-1]).perform()
    tip = browser.find_element("id", "tip")
    assert re.search(r"k\d+ v\d+ after token \d+: .* −?\d", tip.text)
    dot = browser.find_elements("css selector", "#phase circle[data-token]")[4]
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", dot)
    ActionChains(browser).move_to_element(dot).perform()
    assert re.search(r"token \d+: .* · λ 0\.\d+, ρ 0\.\d+", tip.text)


CONTRAST = """
const part = (v) => (v /= 255, v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
const light = ([r, g, b]) => 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
const rgb = { white: [255, 255, 255], black: [0, 0, 0] };
const ratio = ({ fill, text }) => {
  const [a, b] = [light(fill.match(/\\d+/g).map(Number)), light(rgb[text])];
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
};
const shares = Array.from({ length: 1001 }, (_, i) => i / 1000);
const both = shares.flatMap((x) => [shade(x), signed(2 * x - 1, [-1, 1])]);
return [...both, shade(null)].map(ratio);
"""


def test_a_word_can_be_read_on_every_colour(browser, written):
    opened(browser, written)
    ratios = browser.execute_script(CONTRAST)
    assert len(ratios) == 2003
    assert min(ratios) >= 4.5
    # What is drawn is what was computed.
    span = browser.find_element("id", "t0")
    assert span.value_of_css_property("color") in ("rgba(0, 0, 0, 1)", "rgba(255, 255, 255, 1)")


def test_scales_are_fitted_to_the_data_and_back_and_say_their_range(browser, written):
    opened(browser, written)
    data = held(written)

    def legend():
        return [browser.find_element("id", name).text for name in ("low", "high", "scale-is")]

    def corner():
        texts = browser.find_elements("css selector", "#phase svg text")
        return [text.text for text in texts[:2]]

    fixed, before = colours(browser), legend()
    assert before == ["0", "1", "the same scale in every layer"]
    assert corner() == ["0", "1"]
    browser.find_element("id", "fit").send_keys(Keys.ENTER)
    found = [x for row in data["layers"][0]["quantities"]["rho"]["values"] for x in row]
    assert legend() == [
        f"{min(found):.2f}" if min(found) > 0.005 * max(found) else "0",
        f"{max(found):.2f}",
        "least and greatest of layer 0",
    ]
    assert colours(browser) != fixed
    low, high = map(float, corner())
    dots = [row[0] for row in data["layers"][0]["quantities"]["lambda"]["values"]]
    assert 0 <= low <= min(dots) < max(dots) <= high <= 1
    browser.find_element("id", "text").send_keys("f")
    assert legend() == before
    assert colours(browser) == fixed


def test_what_interferes_has_another_colour_than_nothing(browser, written):
    opened(browser, written)
    fills = browser.execute_script(
        "return [-1, -0.5, -0.1, 0, 0.1, 0.5, 1].map((x) => signed(x, [-1, 1]).fill)"
    )
    assert len(set(fills)) == 7
    # As far from zero, as far from the colour of zero: a little interference is pale.
    fitted = browser.execute_script(
        "const light = ({ fill }) => luminance(fill.match(/\\d+/g).map(Number));"
        "return [-0.1, 0.1].map((x) => light(signed(x, [-0.1, 2])))"
    )
    assert min(fitted) > 0.8
    ends = [browser.find_element("id", f"readable-{end}").text for end in ("low", "zero", "high")]
    assert ends == ["−1 or less", "0", "1"]
    browser.execute_script("itemsNow().values[0].at(-1)[0] = -0.5; choose({ head: 0 })")
    cells = browser.find_elements("css selector", "#readable .cell")
    first = held(written)["readable"]["0"]["items"][0]["places"][0]
    last = cells[len(held(written)["words"]) - first - 1]
    assert last.get_attribute("fill") == fills[1]


def test_the_values_of_the_heat_map_are_told_by_keyboard(browser, written):
    opened(browser, written)
    data = held(written)
    found = data["readable"]["0"]
    region, reading = (browser.find_element("id", name) for name in ("readable", "reading"))
    asked = [item["role"] for item in found["items"]].index("right")

    def said(item, token):
        value = found["values"][item][token][0]
        return "not stored yet" if value is None else f"{value:.3f}".replace("-", "−")

    last = len(data["words"]) - 1
    assert f"after token {last}:" in reading.text
    assert reading.text.endswith(said(asked, last))
    assert "the right answer" in browser.find_element("id", "reading-about").text
    region.send_keys(*[Keys.ARROW_DOWN] * len(found["items"]), Keys.ARROW_LEFT)
    assert reading.text.startswith(found["items"][-1]["label"])
    assert f"after token {last - 1}:" in reading.text
    assert reading.text.endswith(said(-1, last - 1))
    now = [value.text for value in browser.find_elements("css selector", "#readable .value")]
    wanted = [said(item, last - 1) for item in range(len(found["items"]))]
    assert now == ["–" if text == "not stored yet" else text for text in wanted]
    region.send_keys(Keys.HOME)
    assert reading.text.endswith("not stored yet")
    browser.find_element("css selector", "#all-readings summary").click()
    rows = len(found["items"]) + 1
    WebDriverWait(browser, 5).until(
        lambda _: len(browser.find_elements("css selector", "#readings tr")) == rows
    )


@pytest.fixture
def phone(browser):
    """The browser as a phone of 360 pixels, which is touched."""
    size = {"width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True})
    yield browser
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})


def tap(browser, element):
    x, y = browser.execute_script(
        "arguments[0].scrollIntoView({block: 'center', inline: 'center'});"
        "const b = arguments[0].getBoundingClientRect();"
        "return [b.x + b.width / 2, b.y + b.height / 2]",
        element,
    )
    for kind, points in (("touchStart", [{"x": x, "y": y}]), ("touchEnd", [])):
        browser.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})


def test_a_tap_tells_numbers_and_what_takes_it_is_as_wide_as_a_finger(phone, written):
    phone.get(written.as_uri())
    data = held(written)
    hits = phone.find_elements("css selector", "#around .hit")
    assert len(hits) == 13
    assert min(min(hit.rect["width"], hit.rect["height"]) for hit in hits) >= 24
    event = phone.find_element("id", "event").get_property("value")
    around = data["around"]["0"][event]["quantities"]["rho"]
    for step in (0, 6):
        tap(phone, hits[step])
        WebDriverWait(phone, 5).until(
            lambda _, step=step: (
                f"{around['mean'][step][0]:.3f}" in phone.find_element("id", "step").text
            )
        )
    assert f"2 tokens after {event}" in phone.find_element("id", "step").text
    cell = phone.find_elements("css selector", "#readable .cell")[-3]
    tap(phone, cell)
    last = len(data["words"]) - 1
    WebDriverWait(phone, 5).until(
        lambda _: f"after token {last - 2}:" in phone.find_element("id", "reading").text
    )
    label = data["readable"]["0"]["items"][-1]["label"]
    assert phone.find_element("id", "reading").text.startswith(label)
    assert phone.get_log("browser") == []


def test_the_step_around_an_event_is_chosen_by_keyboard(browser, written):
    opened(browser, written)
    event = browser.find_element("id", "event").get_property("value")
    around = held(written)["around"]["0"][event]["quantities"]["rho"]
    table, plot = (browser.find_element("id", name) for name in ("step", "around"))
    assert table.text.startswith(f"at {event}")
    plot.send_keys(Keys.ARROW_LEFT, Keys.ARROW_LEFT)
    assert table.text.startswith(f"2 tokens before {event}")
    for head in range(2):
        mean, deviation = around["mean"][2][head], around["deviation"][2][head]
        assert f"head {head} {mean:.3f} {deviation:.3f}" in table.text


def test_the_way_through_an_event_follows_the_event_and_has_a_direction(browser, written):
    opened(browser, written)

    def way(name):
        line = browser.find_element("css selector", f"#{name} polyline")
        arrows = browser.find_elements("css selector", f"#{name} .arrow")
        return line.get_attribute("points"), len(arrows)

    data = held(written)
    browser.find_element("id", "t8").click()
    points, arrows = way("token-route")
    assert len(points.split()) == 9
    assert arrows >= 1
    seen = set()
    for event in data["around_events"]:
        browser.find_element("css selector", f"#event option[value='{event}']").click()
        points, arrows = way("event-route")
        assert arrows >= 1
        assert event in browser.find_element("id", "phase-event").text
        seen.add(points)
        found = data["around"]["0"][event]["quantities"]
        first = [found[name]["mean"][3][0] for name in ("lambda", "rho")]
        if None not in first:
            x, y = map(float, points.split()[0].split(","))
            assert [(x - 48) / 356, 1 - (y - 8) / 356] == pytest.approx(first, abs=1e-3)
    assert len(seen) == len(data["around_events"])
    browser.find_element("id", "text").send_keys("e")
    assert browser.find_element("id", "event").get_property("value") == data["around_events"][0]


def test_figures_that_stand_alone_are_no_larger_than_beside_others(
    browser, saved, written, tmp_path
):
    opened(browser, written)
    wide = browser.find_element("css selector", "#phase svg").rect["width"]
    invoke(saved / "bytes", "--text", "Ann lives in Paris.", "--out", tmp_path / "page.html")
    opened(browser, tmp_path / "page.html")
    assert not browser.find_element("id", "around-section").is_displayed()
    alone = browser.find_element("css selector", "#phase svg").rect["width"]
    assert alone <= wide <= 520
    opened(browser, written)
    browser.find_element("css selector", "#layer option[value='1']").click()
    browser.find_element("css selector", "#quantity option[value='alpha']").click()
    assert not browser.find_element("id", "phase-section").is_displayed()
    assert browser.find_element("css selector", "#around svg").rect["width"] <= 520


def test_a_letter_of_several_tokens_is_one_letter_and_each_of_them_can_be_chosen(
    browser, saved, tmp_path
):
    text = "là 😀!"
    invoke(saved / "bytes", "--text", text, "--out", tmp_path / "page.html")
    opened(browser, tmp_path / "page.html")
    box = browser.find_element("id", "text")
    assert box.get_property("textContent") == text
    table = browser.find_element("id", "token")
    for token, name in (
        (2, "à (token 2 of 2)"),
        (4, "😀 (token 1 of 4)"),
        (6, "😀 (token 3 of 4)"),
    ):
        browser.find_element("id", f"t{token}").click()
        assert table.text.startswith(f"token {token}: {name}")


def test_places_behind_a_session_are_those_of_the_memory(browser, saved, tmp_path):
    model = FourfoldForCausalLM.from_pretrained(saved / "bytes")
    data = inspect_reading(
        model, [5, 6, 7], list("abc"), [Event("")] * 3, title="x", cache=primed(model)
    )
    path = tmp_path / "page.html"
    path.write_text(page(data), encoding="utf-8")
    opened(browser, path)
    assert browser.find_element("id", "token").text.startswith("token 5: c")
    assert browser.find_element("id", "at").get_property("value") == "5"
    assert "token 3" in browser.find_element("id", "cells").text


def test_the_most_important_rows_of_an_ablation_come_first_with_their_interval():
    rows = [
        {"layer": 0, "head": head, "held": {"rho": 0.0}, "exact_match": 0.5 - loss, "loss": loss}
        for head, loss in enumerate([0.3, 0.125, *[0.01] * 7, 0.0, -0.25])
    ]
    whole = {"layer": None, "head": None, "held": {}, "exact_match": 0.5, "loss": 0.0}
    data = {"ablation": [whole, *rows], "ablated": {"examples": 40, "questions": 120}}
    table = ablation_table(data)
    assert "50.0 % of 120 questions in 40 examples" in table
    shown, folded = table.split("<details>")
    order = [int(head) for head in re.findall(r"head (\d+)</td>", shown)]
    assert order[:3] == [0, 10, 1]
    assert len(order) == 8
    assert len(re.findall(r"head \d+</td>", folded)) == 3
    assert "<td>+30.0</td>" in shown
    assert "<td>−25.0</td>" in shown
    assert "<td>0.0</td>" in folded
    assert "Intervals" not in table
    rows[1]["interval"] = [0.05, 0.2]
    table = ablation_table(data)
    assert "<td>+12.5 [+5.0, +20.0]</td>" in table
    assert "Intervals are of the paired difference" in table
    rows[0] |= {"layer": None, "head": None, "held": {"rho": "mean"}}
    assert "<td>all layers, all heads</td><td>rho = mean</td>" in ablation_table(data)
    for row in rows:
        row["loss"] = 0.0
        row.pop("interval", None)
    table = ablation_table(data)
    assert "Nothing that was held changed it." in table
    assert "All that was held: 11" in table


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
