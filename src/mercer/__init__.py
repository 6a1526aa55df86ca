"""Kernel machines at the cost of linear models."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("mercer")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0+unknown"
