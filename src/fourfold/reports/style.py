"""What all pages share: their looks, and figures inside them."""

from __future__ import annotations

import html
import io

from matplotlib import rc_context
from matplotlib.figure import Figure

STYLE = """
body { font: 16px/1.55 system-ui, sans-serif; color: #1d2429; background: #fbfaf7;
       max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; margin-bottom: .2rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
p.lead { margin-top: 0; color: #4a555c; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .35rem .9rem; border-bottom: 1px solid #dcd9d0; }
th { vertical-align: bottom; } td { white-space: nowrap; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
tr.best td { font-weight: 600; }
svg { width: 100%; height: auto; }
code, pre { font: .85rem/1.5 ui-monospace, monospace; }
pre { background: #f1efe8; padding: .8rem 1rem; overflow-x: auto; }
"""

NO_METADATA = {"Creator": None, "Date": None, "Format": None, "Type": None}


def png(figure: Figure, *, dpi: int = 150) -> bytes:
    """``figure`` as a PNG file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi)
    return buffer.getvalue()


def inline_svg(figure: Figure, title: str) -> str:
    """``figure`` as an element for a page, the same bytes every time.

    Args:
        title: what it shows, for those who cannot see it.
    """
    buffer = io.StringIO()
    with rc_context({"svg.hashsalt": "fourfold"}):
        figure.savefig(buffer, format="svg", metadata=NO_METADATA, transparent=True)
    svg = buffer.getvalue()
    label = f'<svg role="img" aria-label="{html.escape(title)}" '
    return svg[svg.index("<svg ") :].replace("<svg ", label, 1)
