"""Experiments: comparisons whose every fit leaves a record."""
