"""Pages of the microscope: writing them, and what they hold."""

from __future__ import annotations

import json
import re

import torch
from typer.testing import CliRunner

from fourfold.cli import app


def invoke(*arguments):
    return CliRunner().invoke(app, ["inspect", *map(str, arguments)])


def held(path):
    """The data of a page."""
    text = path.read_text(encoding="utf-8")
    found = re.search(r"id='data'>(.*?)</script>", text, re.DOTALL)
    return json.loads(found[1])


def primed(model):
    cache = model.new_cache()
    model(torch.tensor([[1, 2, 3]]), cache=cache)
    return cache


def opened(browser, path, width=1280):
    """Open a page, which must have nothing to complain about."""
    browser.set_window_size(width, 900)
    browser.get(path.as_uri())
    assert browser.get_log("browser") == []
