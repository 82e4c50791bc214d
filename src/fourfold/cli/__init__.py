"""The command line: ``fourfold --help``."""

from fourfold.cli.main import app

__all__ = ["app"]
