"""Diagnostics: how far features are from a kernel."""

from mercer.diagnostics.kernel_error import KernelError, kernel_error

__all__ = ["KernelError", "kernel_error"]
