"""Pages and figures drawn from result files."""

from fourfold.reports.comparison import markdown_table, read_comparison, table_rows, write_report

__all__ = ["markdown_table", "read_comparison", "table_rows", "write_report"]
