"""Data: named public data sets (`load`, `names`, `describe`) and readers of files (`read`)."""

from .base import DataError, Dataset, Split, Table
from .loading import Description, describe, load, names
from .mapped import memory_mapped
from .readers import read

__all__ = [
    "DataError",
    "Dataset",
    "Description",
    "Split",
    "Table",
    "describe",
    "load",
    "memory_mapped",
    "names",
    "read",
]
