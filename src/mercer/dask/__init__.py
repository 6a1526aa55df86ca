"""Kernel machines over the workers of a Dask cluster."""
