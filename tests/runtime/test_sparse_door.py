"""Sparse matrices that are none, and such as say of themselves what is not so, at every door."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from mercer._runtime.sparse import canonical_csr

TESTS = Path(__file__).parents[1]
# What these take without looking for it: a design what its maker vouches for, and the preparation
# of tables what is missing.
UNCHECKED = {
    "designs.Sparse": ("missing numbers", "infinite numbers"),
    "TablePreparer.fit": ("missing numbers",),
    "TablePreparer.transform": ("missing numbers",),
}


@pytest.fixture(scope="module", params=[7, pytest.param(1, marks=pytest.mark.slow)])
def step(request):
    """Of how many attacks on a door one is tried."""
    return request.param


@pytest.fixture(scope="module")
def outcomes(step):
    """What came of every attack, in a process of its own, which may not survive it."""
    # Pytest finds modules of the tests by itself; a new interpreter has to be told.
    path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", f"import _hostile; _hostile.sweep_sparse({step})"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=600,
    )
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, f"{said[-1]}\n{done.stderr}"
    return [one for one in said if one["outcome"] != "crash"]


def test_no_matrix_that_is_none_is_taken_or_brings_the_process_down(outcomes, step):
    invalid = [one for one in outcomes if ": " in one["input"]]
    assert len(invalid) > 10_000 / step
    for one in invalid:
        if one["input"].partition(": ")[2] in UNCHECKED.get(one["door"], ()):
            continue
        assert one["outcome"] == "refused", one


def test_indices_are_refused_in_one_sentence_that_names_the_input(outcomes):
    for one in outcomes:
        if one["outcome"] == "refused" and "numbers" not in one["input"]:
            message = one["message"]
            assert message.startswith(("X", "Y", "matrix", "the keys of")), one
            assert "\n" not in message, one
            assert message.endswith("."), one


def test_what_a_matrix_says_of_itself_changes_no_answer_and_nobody_changes_the_matrix(
    outcomes, step
):
    unusual = [one for one in outcomes if ": " not in one["input"]]
    assert len(unusual) > 2000 / step
    assert [one for one in unusual if one["outcome"] != "right"] == []


def test_a_sound_matrix_is_not_copied(X_csr):
    found = canonical_csr(X_csr)
    assert found is not X_csr
    assert all(
        np.shares_memory(getattr(found, name), getattr(X_csr, name))
        for name in ("data", "indices", "indptr")
    )


def test_a_memory_mapped_matrix_stays_in_its_files(tmp_path, X_csr):
    parts = {}
    for name in ("data", "indices", "indptr"):
        np.save(tmp_path / f"{name}.npy", getattr(X_csr, name))
        parts[name] = np.load(tmp_path / f"{name}.npy", mmap_mode="r")
    mapped = sparse.csr_array(X_csr.shape)
    mapped.data, mapped.indices, mapped.indptr = parts.values()
    found = canonical_csr(mapped)
    assert np.shares_memory(found.indices, parts["indices"])
    np.testing.assert_array_equal(found.toarray(), X_csr.toarray())


@pytest.mark.parametrize("shape", [(3, 0), (0, 3), (1, 1)])
@pytest.mark.parametrize("kind", ["csr", "csc", "bsr", "coo", "lil", "dok", "dia"])
def test_matrices_without_entries_are_matrices(kind, shape):
    found = canonical_csr(getattr(sparse, f"{kind}_array")(shape))
    assert found.format == "csr"
    assert found.shape == shape
    assert not found.nnz


def test_matrices_of_one_dimension_are_refused():
    with pytest.raises(ValueError, match=r"X must have two dimensions; got shape \(3,\)\."):
        canonical_csr(sparse.coo_array(np.ones(3)))
