"""Pages and figures drawn from result files."""

from fourfold.reports.comparison import (
    comparison_markdown,
    read_comparison,
    table_rows,
    write_report,
)

__all__ = ["comparison_markdown", "read_comparison", "table_rows", "write_report"]
