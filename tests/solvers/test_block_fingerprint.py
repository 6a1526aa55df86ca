"""What tells the data and the settings of two fits apart, and what does not."""

import numpy as np
import pytest
from scipy import sparse

from _systems import KERNEL, exactly, make
from mercer import config_context
from mercer._runtime.rows import PreparedRows
from mercer.designs import Dense, KernelColumns, Lazy, Sparse
from mercer.losses import Squared
from mercer.maps import RandomFourier
from mercer.penalties import L2, RKHSNorm
from mercer.problem import Problem
from mercer.solvers.block.fingerprint import digest_of

ANOTHER = r"^checkpoint must be a folder of the same fit: data, settings or alphas differ from .*"


def solver_in(folder, **settings):
    settings = {"tol": 1e-3, "trace": "block", "checkpoint_every": 1} | settings
    return exactly(checkpoint=folder, **settings)


def interrupted(folder, problem, start=None):
    """A solver whose fit of the problem was interrupted."""

    def interrupt(state):
        raise KeyboardInterrupt

    solver = solver_in(folder)
    solver.solve(problem, start, interrupt)
    return solver


def texts():
    return np.array(["north", "", "süd", "\U0001f40d", "north"] * 40, dtype=object)


def forms(X):
    """The same rows in every form in which they come."""
    S = sparse.csr_array(X)
    wide = sparse.csr_array((S.data, S.indices.astype(np.int64), S.indptr.astype(np.int64)))
    wide.resize(S.shape)
    return {"dense": X, "csr": S, "wide": wide}


@pytest.fixture
def X(rng):
    X = rng.normal(size=(60, 5))
    X[rng.random(X.shape) < 0.6] = 0.0
    return X


def test_the_layout_and_the_order_of_bytes_make_no_difference(X, tmp_path):
    np.save(tmp_path / "X.npy", np.asfortranarray(X))
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    strided = np.repeat(X, 2, axis=1)[:, ::2]
    swapped = X.astype(X.dtype.newbyteorder())
    for other in (np.asfortranarray(X), mapped, strided, swapped, PreparedRows(mapped)):
        assert digest_of([other]) == digest_of([X])
    of = forms(X)
    assert digest_of([of["wide"]]) == digest_of([of["csr"]])
    assert of["wide"].indices.dtype != of["csr"].indices.dtype


@pytest.mark.parametrize("form", ["dense", "csr", "text", "prepared"])
def test_the_size_of_chunks_makes_no_difference(form, X):
    rows = {**forms(X), "text": texts(), "prepared": PreparedRows(X, np.negative, np.arange(7, 50))}
    whole = digest_of([rows[form]])
    with config_context(max_memory="3kB"):
        assert digest_of([rows[form]]) == whole


@pytest.mark.parametrize("form", ["dense", "csr"])
def test_every_entry_counts(form, X):
    S = forms(X)[form]
    digests = {digest_of([S])}
    numbers = S.data if form == "csr" else S.reshape(-1)
    for place in range(numbers.size):
        before = numbers[place]
        numbers[place] = np.nextafter(before, np.inf)
        digests.add(digest_of([S]))
        numbers[place] = before
    if form == "csr":
        for place in range(S.nnz):  # to the next column, if it is free
            S.indices[place] += 1
            digests.add(digest_of([S]))
            S.indices[place] -= 1
        assert len(digests) == 2 * S.nnz + 1
    else:
        assert len(digests) == S.size + 1
    assert digest_of([S[:-1]]) not in digests


def test_every_letter_counts():
    rows = texts()
    whole = digest_of([rows])
    assert digest_of([rows.astype("U")]) == digest_of([rows.astype("T")]) == whole
    for place in (0, 1, 57, 199):
        other = rows.copy()
        other[place] += "!"
        assert digest_of([other]) != whole
    moved = rows.copy()
    moved[0], moved[1] = "nort", "h"  # the same letters, divided otherwise
    assert digest_of([moved]) != whole


# -- fits -----------------------------------------------------------------------------------


def dense_fit(X, y=None, weights=None, fit_intercept=True, alpha=0.1):
    y = X[:, 0] if y is None else y
    return Problem(Dense(X), y, Squared(), L2(alpha), weights, fit_intercept)


def kernel_fit(X, landmarks=None, jitter=0.0, prepare=None, kernel=KERNEL):
    design = KernelColumns(X, kernel, landmarks, prepare=prepare)
    penalty = RKHSNorm(0.1, design.landmark_design(), jitter)
    return Problem(design, np.arange(60.0), Squared(), penalty)


def lazy_fit(X, seed=0):
    map_ = RandomFourier(n_components=20, gamma=1.0, random_state=seed).fit(X)
    design = Lazy(X, map_, map_.n_features_out_)
    return Problem(design, np.arange(60.0), Squared(), L2(0.1))


def one_entry(X, place=(37, 2), change=1e-9):
    X = X.copy()
    X[place] += change
    return X


FITS = {
    "X": lambda X: (dense_fit(X), dense_fit(one_entry(X), X[:, 0])),
    "y": lambda X: (dense_fit(X), dense_fit(X, one_entry(X[:, 0], 41))),
    "weights": lambda X: (dense_fit(X), dense_fit(X, weights=np.arange(60.0))),
    "a weight": lambda X: (
        dense_fit(X, weights=np.ones(60)),
        dense_fit(X, weights=one_entry(np.ones(60), 41, 1e-3)),
    ),
    "intercept": lambda X: (dense_fit(X), dense_fit(X, fit_intercept=False)),
    "csr": lambda X: (
        Problem(Sparse(forms(X)["csr"]), X[:, 0], Squared(), L2(0.1)),
        Problem(Sparse(forms(one_entry(X))["csr"]), X[:, 0], Squared(), L2(0.1)),
    ),
    "rows of a kernel": lambda X: (kernel_fit(X), kernel_fit(one_entry(X))),
    "landmarks": lambda X: (kernel_fit(X, X[:9]), kernel_fit(X, one_entry(X[:9], (5, 2)))),
    "jitter": lambda X: (kernel_fit(X, X[:9], 0.1), kernel_fit(X, X[:9], 0.2)),
    "kernel": lambda X: (kernel_fit(X), kernel_fit(X, kernel=type(KERNEL)(0.301))),
    "scaler": lambda X: (
        kernel_fit(PreparedRows(X, lambda some: 2 * some)),
        kernel_fit(PreparedRows(X, lambda some: 2.01 * some)),
    ),
    "order of rows": lambda X: (
        kernel_fit(PreparedRows(X, index=np.arange(60))),
        kernel_fit(PreparedRows(X, index=np.roll(np.arange(60), 1))),
    ),
    "rows of a map": lambda X: (lazy_fit(X), lazy_fit(one_entry(X))),
    "map": lambda X: (lazy_fit(X), lazy_fit(X, 1)),
}


@pytest.mark.parametrize("part", FITS)
def test_a_change_of_any_part_is_noticed(part, X, tmp_path):
    one, other = FITS[part](X)
    solver = interrupted(tmp_path, one)
    with pytest.raises(ValueError, match=ANOTHER):
        solver.solve(other)
    assert solver.solve(one).converged


@pytest.mark.parametrize("change", [{"tol": 1e-2}, {"shuffle": False}, {"accelerated": False}])
def test_a_change_of_a_setting_is_noticed(change, tmp_path, rng):
    problem = make("features", rng)
    interrupted(tmp_path, problem)
    with pytest.raises(ValueError, match=ANOTHER):
        solver_in(tmp_path, **change).solve(problem)


def test_a_start_counts(tmp_path, rng):
    problem = make("features", rng)
    start = np.zeros(problem.shape)
    solver = interrupted(tmp_path, problem, start)
    start[7] = 1e-9
    with pytest.raises(ValueError, match=ANOTHER):
        solver.solve(problem, start)
