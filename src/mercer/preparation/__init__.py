"""From raw tables to numbers that kernels can compare."""

from mercer.preparation.circles import on_circle, on_sphere
from mercer.preparation.columns import TableColumns, checked_table, column_names, read
from mercer.preparation.display import TellsColumns
from mercer.preparation.frames import rows_of
from mercer.preparation.label_parts import has_identities, label_ways
from mercer.preparation.preparer import TablePreparer, treated

__all__ = [
    "TableColumns",
    "TablePreparer",
    "TellsColumns",
    "checked_table",
    "column_names",
    "has_identities",
    "label_ways",
    "on_circle",
    "on_sphere",
    "read",
    "rows_of",
    "treated",
]
