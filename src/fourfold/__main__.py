"""``python -m fourfold`` is ``fourfold``."""

from fourfold.cli import app

app()
