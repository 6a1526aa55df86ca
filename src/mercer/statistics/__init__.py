"""Tests of distributions by kernels: whether two samples differ, whether two tables depend."""

from mercer.statistics.tests import TestResult, drift_test, hsic_test, mmd_test

__all__ = ["TestResult", "drift_test", "hsic_test", "mmd_test"]
