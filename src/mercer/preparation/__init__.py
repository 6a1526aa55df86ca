"""From raw tables to numbers that kernels can compare."""

from mercer.preparation.columns import checked_table
from mercer.preparation.preparer import TablePreparer

__all__ = ["TablePreparer", "checked_table"]
