"""Settings shared by all tests."""

from __future__ import annotations

import signal

import pytest
import torch

# Two workers share two cores; more threads would only wait for each other.
torch.set_num_threads(1)

# A shell lets what it starts in the background ignore Ctrl-C, which the processes that tests start
# and interrupt would inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def fixed_seed() -> None:
    torch.manual_seed(0)


def pytest_terminal_summary(terminalreporter) -> None:
    """Print what tests measured (``record_property``), so that figures show in every run."""
    measured = [
        f"{name}: {value}"
        for report in terminalreporter.getreports("passed")
        if report.when == "call"
        for name, value in report.user_properties
    ]
    if measured:
        terminalreporter.section("measured")
        for line in measured:
            terminalreporter.write_line(line)
