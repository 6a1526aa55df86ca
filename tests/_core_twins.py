"""The slow, obvious form of what the core computes."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
from scipy import sparse

from mercer import _core

LOW = np.uint64(0xFFFFFFFF)
LEVELS = _core.cpu_info()["compiled"]
LEVELS = LEVELS[: LEVELS.index(_core.cpu_info()["used"]) + 1]


class Grids:
    """Parameters of random grids, widths around 1 / gamma."""

    def __init__(self, rng, n_grids, d, gamma=1.0):
        self.inverse_widths = 1.0 / rng.gamma(2.0, 1.0 / gamma, (n_grids, d))
        self.shifts = rng.random((n_grids, d))
        self.multipliers = rng.integers(0, 2**64, (n_grids, d), dtype=np.uint64)

    @property
    def arguments(self):
        return self.inverse_widths, self.shifts, self.multipliers

    def codes(self, X):
        """Bin indices (grids, n, d)."""
        with np.errstate(over="ignore"):
            position = X.astype(np.float64) * self.inverse_widths[:, None] - self.shifts[:, None]
        return np.clip(np.floor(position), -(2.0**31), 2.0**31 - 1).astype(np.int64)

    def keys(self, X):
        """Keys (grids, n)."""
        codes = self.codes(X).astype(np.uint64)
        multipliers = self.multipliers[:, None]
        low = (codes * (multipliers & LOW)).sum(axis=2, dtype=np.uint64) & LOW
        high = (codes * (multipliers >> np.uint64(32))).sum(axis=2, dtype=np.uint64) & LOW
        return high << np.uint64(32) | low


def numbers_in_order(keys):
    """Number of each key and the distinct keys, both in the order of first occurrence."""
    distinct, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return rank[inverse], distinct[order]


def hashed(keys, n_columns):
    low = keys & LOW
    low = ((low ^ low >> np.uint64(16)) * np.uint64(0x7FEB352D)) & LOW
    mixed = low ^ low >> np.uint64(15) ^ keys >> np.uint64(32)
    return mixed * np.uint64(n_columns) >> np.uint64(32)


def buffers(X, index=np.int32):
    """X as the core takes it: an array or the parts of a CSR matrix."""
    if not sparse.issparse(X):
        return X
    return X.data, X.indices.astype(index), X.indptr.astype(index), X.shape[1]


def binned_csr(codes, offsets):
    """The binned matrix with entries 1; codes beyond a grid's columns are left out."""
    n_grids, n = codes.shape
    known = codes < np.diff(offsets)[:, None]
    rows = np.broadcast_to(np.arange(n), (n_grids, n))[known]
    columns = (codes.astype(np.int64) + offsets[:-1, None])[known]
    return sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=(n, offsets[-1]))


def run_at_level(level, code):
    """What ``code`` (with numpy as np and the core as _core) leaves in ``result``, as JSON."""
    load = (
        "import importlib.machinery, importlib.util, json, numpy as np\n"
        f"loader = importlib.machinery.ExtensionFileLoader('_core', {_core.__file__!r})\n"
        "spec = importlib.util.spec_from_loader('_core', loader)\n"
        "_core = importlib.util.module_from_spec(spec)\n"
        "loader.exec_module(_core)\n"
    )
    environment = {**os.environ, "MERCER_ISA": level}
    done = subprocess.run(
        [sys.executable, "-c", f"{load}{code}\nimport sys; sys.stdout.write(json.dumps(result))"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return json.loads(done.stdout)
