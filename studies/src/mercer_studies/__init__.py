"""The experiments of five papers on kernel machines, run again with mercer.

Installed beside mercer, it adds ``mercer reproduce`` and ``mercer report`` to the command line.
"""
