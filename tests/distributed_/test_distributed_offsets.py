"""Known parts of the responses of rows in shards: the models of one machine."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from sklearn.base import clone

from mercer import (
    AutoKernelClassifier,
    AutoKernelRegressor,
    KernelClassifier,
    KernelRegressor,
    LocalKernelClassifier,
    LocalKernelRegressor,
)
from mercer.distributed import Here, Shard
from mercer.distributed.automatic import fit_automatic
from mercer.distributed.fitting import fit_machine
from mercer.distributed.models import fit_over
from mercer.distributed.parquet import parquet_parts, read_part

N, EDGES = 300, (0, 7, 7, 90, 300)
FIXED = {"random_state": 0, "n_components": 20, "tol": 1e-11, "max_iter": 5000}
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3))
OFFSET = 2.0 * np.cos(X[:, 1])
COUNTS = RNG.poisson(np.exp(OFFSET + np.sin(X[:, 0]))).astype(float)
SEVERAL = np.column_stack([COUNTS, COUNTS[::-1]])
LABELS = np.where(RNG.uniform(size=N) < 1 / (1 + np.exp(-OFFSET - X[:, 0])), "yes", "no")
WEIGHTS = RNG.integers(0, 3, N).astype(float)


def shards(y, offset, weights=None, n_shifted=4):
    of_rows = [
        [None if each is None else each[a:b] for each in (y, weights, offset)]
        for a, b in pairwise(EDGES)
    ]
    places = zip(pairwise(EDGES), of_rows, strict=True)
    return Here(
        [
            Shard(X[a:b], *given, offset=shift if number < n_shifted else None)
            for number, ((a, b), (*given, shift)) in enumerate(places)
        ],
        n_workers=2,
    )


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (KernelRegressor("fourier", loss="squared", **FIXED), COUNTS),
        (KernelRegressor("exact", loss="squared", tol=1e-11), COUNTS),
        (KernelRegressor("fourier", loss="huber", **FIXED), SEVERAL),
        (KernelRegressor("fourier", loss="poisson", alpha=1e-3, **FIXED), COUNTS),
        (KernelRegressor("linear", loss="poisson", alpha=1e-3, tol=1e-11), SEVERAL),
        (KernelRegressor("nystroem", loss="gamma", fit_intercept=False, **FIXED), COUNTS + 1),
        (KernelClassifier("fourier", loss="logistic", alpha=1e-3, **FIXED), LABELS),
    ],
)
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
def test_machines_are_those_of_one_process(model, y, weights):
    local = clone(model).fit(X, y, weights, offset=OFFSET)
    far = fit_machine(clone(model), shards(y, OFFSET, weights))
    size = np.abs(local.map_coef_).max()
    np.testing.assert_allclose(far.map_coef_, local.map_coef_, rtol=0, atol=1e-6 * size)
    np.testing.assert_allclose(far._responses(X), local._responses(X), rtol=1e-6, atol=1e-6)
    plain = clone(model).fit(X, y, weights)
    assert np.abs(plain._responses(X) - local._responses(X)).max() > 0.1


def test_the_optimality_is_in_units_of_the_same_start():
    model = KernelRegressor("fourier", loss="poisson", alpha=1e-3, random_state=0, tol=1e-2)
    local = clone(model).fit(X, COUNTS, offset=OFFSET)
    far = fit_machine(clone(model), shards(COUNTS, OFFSET))
    assert far.n_iter_ == local.n_iter_
    np.testing.assert_allclose(far.optimality_, local.optimality_, rtol=1e-4)


def test_inputs_in_float32_take_an_offset():
    model = KernelRegressor("fourier", loss="poisson", alpha=1e-3, random_state=0, tol=1e-4)
    local = clone(model).fit(X.astype(np.float32), COUNTS, offset=OFFSET)
    engine = Here([Shard(X.astype(np.float32), COUNTS, offset=OFFSET)])
    far = fit_machine(clone(model), engine)
    np.testing.assert_allclose(far.predict(X, offset=0), local.predict(X, offset=0), rtol=1e-2)


def test_strengths_are_chosen_by_held_out_losses_with_the_offset():
    labels = RNG.uniform(size=N) < 1 / (1 + np.exp(-4 * OFFSET))
    settings = {"loss": "logistic", "alphas": [1e-5, 10.0], "selection": "holdout"}
    model = KernelClassifier("fourier", random_state=0, n_components=20, **settings)
    local = clone(model).fit(X, labels, offset=4 * OFFSET)
    far = fit_machine(clone(model), shards(labels, 4 * OFFSET))
    assert far.alpha_ == local.alpha_
    np.testing.assert_allclose(far.path_["score"], local.path_["score"], rtol=1e-4)


@pytest.mark.parametrize("leaf_size", [60, 1000])
def test_local_machines_are_those_of_one_process(leaf_size):
    model = LocalKernelRegressor(leaf_size=leaf_size, n_trees=2, random_state=0)
    local = clone(model).fit(X, COUNTS, offset=OFFSET)
    far = fit_over(clone(model), shards(COUNTS, OFFSET))
    np.testing.assert_allclose(
        far.predict(X, offset=0), local.predict(X, offset=0), rtol=1e-9, atol=1e-9
    )


def test_automatic_models_are_those_of_one_process():
    local = AutoKernelRegressor(random_state=0).fit(X, COUNTS, offset=OFFSET - 9.0)
    far = fit_automatic(AutoKernelRegressor(random_state=0), shards(COUNTS, OFFSET - 9.0))
    assert far.best_settings_ == local.best_settings_
    found, wanted = (each.predict_interval(X, offset=OFFSET - 9.0) for each in (far, local))
    np.testing.assert_allclose(found, wanted, atol=1e-9)


def test_leaves_of_automatic_models_are_solved_without_the_offset(monkeypatch, few_treatments):
    monkeypatch.setattr("mercer.auto.tuning.TUNING.exact_rows", 200)
    local = AutoKernelRegressor(random_state=0).fit(X, COUNTS, offset=OFFSET)
    far = fit_automatic(AutoKernelRegressor(random_state=0), shards(COUNTS, OFFSET))
    assert far.best_settings_ == local.best_settings_
    np.testing.assert_allclose(far.predict(X, offset=0), local.predict(X, offset=0), atol=1e-9)


@pytest.mark.parametrize(
    ("model", "y", "engine", "words"),
    [
        (KernelClassifier(), LABELS, {}, "offset must be None for loss 'squared'"),
        (KernelClassifier(loss="logistic"), np.arange(N) % 3, {}, "of more than two classes"),
        (LocalKernelClassifier(), LABELS, {}, "offset must be None for loss"),
        (
            LocalKernelRegressor(loss="poisson"),
            COUNTS,
            {},
            "offset must be None for loss 'poisson'",
        ),
        (AutoKernelClassifier(), np.arange(N) % 3, {}, "of more than two classes"),
        (KernelRegressor(), COUNTS, {"offset": np.full(N, np.nan)}, "Input offset contains NaN"),
        (KernelRegressor(), COUNTS, {"n_shifted": 3}, "offsets, or no offsets, everywhere"),
        (KernelRegressor(), COUNTS, {"offset": OFFSET[:, None]}, "a number for each of the 7 rows"),
    ],
)
def test_refusals(model, y, engine, words):
    with pytest.raises(ValueError, match=words):
        fit_over(model, shards(**{"y": y, "offset": OFFSET, **engine}))


def test_files_have_columns_of_offsets(tmp_path):
    pytest.importorskip("pyarrow")
    import pandas as pd

    frame = pd.DataFrame(X, columns=list("abc")).assign(y=COUNTS, w=WEIGHTS, o=OFFSET)
    frame.to_parquet(tmp_path / "rows.parquet")
    parts = parquet_parts(tmp_path, 2, target="y", weights="w", offset="o")
    assert parts[0].features == ("a", "b", "c")
    found = np.concatenate([read_part(part).offset for part in parts])
    np.testing.assert_array_equal(found, OFFSET)
    frame.assign(o=np.where(OFFSET > 0, OFFSET, np.nan)).to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match="offset must be finite numbers; column 'o' of"):
        read_part(parts[0])
