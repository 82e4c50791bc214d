"""Pages and figures drawn from result files."""

from fourfold.reports.comparison import read_comparison, table_rows, write_report

__all__ = ["read_comparison", "table_rows", "write_report"]
