"""Shapley values of every model against sums over all subsets of columns."""

from __future__ import annotations

import itertools
import math
import pickle
import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import is_classifier
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import mercer
from mercer import kernels, maps
from mercer.explain import members, shapley_values

_RNG = np.random.default_rng(0)
X = _RNG.normal(size=(60, 4))
y = np.sin(2 * X[:, 0]) * X[:, 1] + X[:, 2]
ROWS, BEHIND = X[:3], X[10:12]


def responses(model, rows):
    found = model.decision_function(rows) if is_classifier(model) else model.predict(rows)
    return found.reshape(len(rows), -1)


def worth(model, row, known, background, joint):
    """Mean response where columns outside ``known`` are those of background rows."""
    d = len(row)
    if joint:
        rows = np.where(known, row, background)
    else:
        places = itertools.product(range(len(background)), repeat=d)
        rows = np.array([np.where(known, row, background[list(p), range(d)]) for p in places])
    return responses(model, rows.astype(background.dtype)).mean(axis=0)


def brute_force(model, rows, background, joint):
    """Values (n, d, k) and interaction indices (n, d, d, k) by sums over all subsets."""
    d = rows.shape[1]
    values, pairs = [], []
    for row in rows:
        sets = list(itertools.product([False, True], repeat=d))
        v = {s: worth(model, row, np.array(s), background, joint) for s in sets}
        value, pair = np.zeros((d, len(v[sets[0]]))), np.zeros((d, d, len(v[sets[0]])))
        for s in sets:
            size = sum(s)
            for j in np.flatnonzero(~np.array(s)):
                with_j = tuple(np.array(s) | (np.arange(d) == j))
                weight = math.factorial(size) * math.factorial(d - size - 1) / math.factorial(d)
                value[j] += weight * (v[with_j] - v[s])
                for i in np.flatnonzero(~np.array(with_j)):
                    with_i = tuple(np.array(s) | (np.arange(d) == i))
                    both = tuple(np.array(with_i) | (np.arange(d) == j))
                    weight = math.factorial(size) * math.factorial(d - size - 2)
                    change = v[both] - v[with_i] - v[with_j] + v[s]
                    pair[j, i] += weight / math.factorial(d - 1) * change
        values.append(value)
        pairs.append(pair)
    return np.array(values), np.array(pairs)


def mixed(values, pairs):
    """Halves of the indices beside the diagonal, and what is left of the values on it."""
    out = pairs / 2
    every = np.arange(values.shape[1])
    out[:, every, every] = values - out.sum(axis=2)
    return out


def regressor(feature_map="exact", **settings):
    settings = {"alpha": 1e-3, "random_state": 0, **settings}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return mercer.KernelRegressor(feature_map, **settings).fit(X, y)


MODELS = {
    "laplacian": lambda: regressor(kernel="laplacian"),
    "gaussian": lambda: regressor(kernel="gaussian", gamma=[0.1, 0.2, 0.3, 0.4]),
    "cauchy": lambda: regressor(kernel="cauchy"),
    "product": lambda: regressor(
        kernel=kernels.Product(lambda t: 1 / (1 + t), lambda t: -1 / (1 + t) ** 2, gamma=0.5)
    ),
    "sum and product": lambda: regressor(
        kernel=0.5 * kernels.Gaussian(gamma=0.2) * kernels.Laplacian(gamma=0.1)
        + kernels.Laplacian(gamma=1.0)
    ),
    "linear kernel": lambda: regressor(kernel=kernels.Linear()),
    "whitened": lambda: regressor(maps.ExactKernel(whiten=True)),
    "nystroem": lambda: regressor("nystroem", n_components=20),
    "landmarks": lambda: regressor(maps.Nystroem(n_components=20, whiten=False)),
    "fourier": lambda: regressor("fourier", n_components=30),
    "pairs": lambda: regressor(maps.RandomFourier(n_components=30, form="pair")),
    "laplacian fourier": lambda: regressor("fourier", kernel="laplacian", n_components=30),
    "fastfood": lambda: regressor("fastfood", n_components=32),
    "tefm": lambda: regressor("tefm", n_components=10),
    "linear": lambda: regressor("linear"),
    "unscaled": lambda: regressor(scale=False),
    "two outputs": lambda: mercer.KernelRegressor("exact", alpha=1e-3).fit(X, np.c_[y, X[:, 3]]),
    "classes": lambda: mercer.KernelClassifier("exact", alpha=1e-2).fit(
        X, np.digitize(y, [-0.5, 0.5])
    ),
    "two classes": lambda: mercer.KernelClassifier("nystroem", n_components=9).fit(X, y > 0),
    "dual": lambda: mercer.DualKernelSVC().fit(X, np.digitize(y, [-0.5, 0.5])),
    "sparse": lambda: mercer.SparseKernelRegressor(
        "fourier", n_new=20, max_rounds=3, random_state=0
    ).fit(X, y),
    "doubly": lambda: mercer.DoublySGDRegressor(max_iter=3, random_state=0).fit(X, y),
}


@pytest.mark.parametrize("name", MODELS)
def test_values_are_sums_over_all_subsets(name):
    model = MODELS[name]()
    background = BEHIND.copy()
    for baseline in ("independent", "rows"):
        found = shapley_values(model, ROWS, background, baseline=baseline)
        values, pairs = brute_force(model, ROWS, background, baseline == "rows")
        tolerance = 1e-10 * np.abs(responses(model, X)).max()
        if found.values.ndim == 2:
            values, pairs = values[..., 0], pairs[..., 0]
        assert found.is_exact
        np.testing.assert_allclose(found.values, values, rtol=0, atol=tolerance)
        both = shapley_values(model, ROWS, background, baseline=baseline, interactions=True)
        expected = mixed(values, pairs)
        np.testing.assert_allclose(both.values, expected, rtol=0, atol=tolerance)


@pytest.mark.filterwarnings("ignore:.* bins of these rows were not met")
@pytest.mark.parametrize("kernel", ["laplacian", None])
def test_bins_are_exact_with_all_training_rows_behind(kernel):
    few, target = X[:5], y[:5]
    settings = {} if kernel is None else {"kernel": kernel}
    model = mercer.KernelRegressor(
        "binning", gamma=0.3, n_components=8, alpha=1e-3, random_state=0, **settings
    ).fit(few, target)
    rows = np.concatenate([few[:1], X[20:22]])
    for baseline in ("independent", "rows"):
        found = shapley_values(model, rows, few, baseline=baseline)
        values, _ = brute_force(model, rows, few, baseline == "rows")
        assert found.is_exact
        np.testing.assert_allclose(found.values, values[..., 0], rtol=0, atol=1e-12)


def test_selected_bins_are_exact():
    model = mercer.SparseKernelRegressor("binning", n_new=20, max_rounds=3, random_state=0).fit(
        X, y
    )
    found = shapley_values(model, ROWS, X, baseline="rows")
    values, _ = brute_force(model, ROWS, X, True)
    assert found.is_exact
    np.testing.assert_allclose(found.values, values[..., 0], rtol=0, atol=1e-12)


# -- estimates -------------------------------------------------------------------------------------

ESTIMATED = {
    "exponential": lambda: regressor(kernel="exponential"),
    "local": lambda: mercer.LocalKernelRegressor(leaf_size=20, random_state=0).fit(X, y),
    "perceptron": lambda: regressor("perceptron", n_components=30),
    "few rows behind bins": lambda: regressor("binning", n_components=20),
    "hashed": lambda: regressor(maps.RandomBinning(n_components=20, bins=16)),
    "turned": lambda: make_pipeline(
        mercer.GradientScaler(full=True, random_state=0), mercer.KernelRegressor("exact")
    ).fit(X, y),
    "mixed columns": lambda: make_pipeline(
        PolynomialFeatures(2), mercer.KernelRegressor("exact")
    ).fit(X, y),
    "forest": lambda: RandomForestRegressor(10, random_state=0).fit(X, y),
}


@pytest.mark.parametrize("name", ESTIMATED)
@pytest.mark.parametrize("baseline", [pytest.param("independent", marks=pytest.mark.slow), "rows"])
def test_estimates_agree_within_their_errors(name, baseline):
    model = ESTIMATED[name]()
    found = shapley_values(
        model, ROWS, BEHIND, baseline=baseline, tolerance=1e-3, max_evaluations=4000
    )
    values, _ = brute_force(model, ROWS, BEHIND, baseline == "rows")
    values = values.reshape(found.values.shape)
    assert not found.is_exact
    assert found.standard_errors.max() < 0.05 * np.ptp(values)
    apart = np.abs(found.values - values)
    assert (apart <= 5 * found.standard_errors + 0.02 * np.ptp(values)).all()
    changes = responses(model, ROWS)[:, 0] - found.base_values
    np.testing.assert_allclose(found.values.sum(axis=1), changes, atol=1e-9)


def test_errors_fall_with_the_tolerance():
    model = ESTIMATED["forest"]()
    rough, fine = (shapley_values(model, ROWS, X, tolerance=t) for t in (0.2, 0.004))
    assert fine.standard_errors.mean() < 0.5 * rough.standard_errors.mean()


def test_a_control_lowers_the_errors_and_keeps_the_values(monkeypatch):
    rows = np.random.default_rng(3).normal(size=(400, 5))
    model = mercer.LocalKernelRegressor(leaf_size=100, random_state=0)
    model.fit(rows, np.sin(rows[:, 0]) * rows[:, 1] + rows[:, 2])
    settings = {"tolerance": 1e-9, "max_evaluations": 90}
    found = shapley_values(model, rows[:20], **settings)
    monkeypatch.setattr(members, "control_of", lambda *settings: None)
    plain = shapley_values(model, rows[:20], **settings)
    assert found.standard_errors.mean() < 0.6 * plain.standard_errors.mean()
    exact = shapley_values(model, rows[:20], tolerance=1e-9, max_evaluations=9000).values
    assert (np.abs(found.values - exact) <= 6 * plain.standard_errors).all()


# -- tables ----------------------------------------------------------------------------------------


def raw_table(n=300, seed=0):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "city": rng.choice(["Rome", "Oslo", None], n),
            "size": [f"{size} cm" for size in rng.integers(1, 90, n)],
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D"),
            "age": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n)),
            "same": 1.0,
        }
    )
    long = table["size"].str[:-3].astype(float) / 30
    return table, long * (1 + (table.city == "Rome")) + table.age.fillna(1) ** 2


def hybrids(model, table, behind):
    """Values of every row of a table by sums over all subsets, whole background rows behind."""
    d = table.shape[1]
    names = list(table.columns)
    worths = {}
    for known in itertools.product([False, True], repeat=d):
        parts = []
        for _, row in behind.iterrows():
            part = table.copy()
            for name, is_known in zip(names, known, strict=True):
                if not is_known:
                    part[name] = pd.Series([row[name]] * len(part), dtype=table[name].dtype)
            parts.append(responses(model, part))
        worths[known] = np.mean(parts, axis=0)
    values = np.zeros((len(table), d, worths[(True,) * d].shape[1]))
    for known, worth_of in worths.items():
        size = sum(known)
        for j in np.flatnonzero(~np.array(known)):
            with_j = tuple(np.array(known) | (np.arange(d) == j))
            weight = math.factorial(size) * math.factorial(d - size - 1) / math.factorial(d)
            values[:, j] += weight * (worths[with_j] - worth_of)
    return values


@pytest.fixture(scope="module")
def automatic():
    table, target = raw_table()
    labels = pd.cut(target, 3, labels=["low", "mid", "high"]).astype(str)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "columns are left out")
        return (
            table,
            mercer.AutoKernelRegressor(random_state=0).fit(table, target),
            mercer.AutoKernelClassifier(random_state=0).fit(table, labels),
        )


def test_columns_of_a_raw_table_are_players(automatic):
    table, *models = automatic
    rows, behind = table[:4].reset_index(drop=True), table[50:52]
    for model in models:
        found = shapley_values(model, rows, behind, baseline="rows")
        expected = hybrids(model, rows, behind).reshape(found.values.shape)
        size = np.ptp(responses(model, table))
        np.testing.assert_allclose(found.values, expected, rtol=0, atol=1e-4 * size)
        assert found.feature_names.tolist() == list(table.columns)
        assert not found.values[:, 4].any()  # a constant column is left out
        changes = responses(model, table) - np.atleast_1d(shapley_values(model, table).base_values)
        sums = shapley_values(model, table).values.sum(axis=1).reshape(changes.shape)
        np.testing.assert_allclose(sums, changes, rtol=0, atol=1e-4 * size)


def test_saved_models_explain_themselves(automatic):
    table, model, _ = automatic
    again = pickle.loads(pickle.dumps(model))
    found, expected = (shapley_values(m, table[:9]) for m in (again, model))
    np.testing.assert_array_equal(found.values, expected.values)


def test_classes_are_chosen_by_their_labels(automatic):
    table, _, model = automatic
    everything = shapley_values(model, table[:3])
    assert everything.output_names.tolist() == ["high", "low", "mid"]
    found = shapley_values(model, table[:3], outputs=["mid", "high"])
    np.testing.assert_array_equal(found.values, everything.values[..., [2, 0]])
    assert found.output_names.tolist() == ["mid", "high"]


def test_logarithms_are_named():
    table, target = raw_table()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "columns are left out")
        model = mercer.AutoKernelRegressor(random_state=0).fit(table, np.exp(2 * target))
    assert shapley_values(model, table[:2]).unit == "logarithm of the target"


def test_frames_of_other_models_are_explained():
    table = pd.DataFrame(X, columns=list("abcd"))
    forest = RandomForestRegressor(10, random_state=0).fit(table, y)
    found = shapley_values(forest, table[:3][["d", "c", "b", "a"]], table[:20], tolerance=0.01)
    assert found.feature_names.tolist() == ["a", "b", "c", "d"]
    plain = RandomForestRegressor(10, random_state=0).fit(X, y)
    expected = shapley_values(plain, X[:3], X[:20], tolerance=0.01)
    errors = found.standard_errors + expected.standard_errors
    assert (np.abs(found.values - expected.values) <= 5 * errors).all()


def test_searches_are_explained_by_their_best_estimator():
    search = GridSearchCV(mercer.KernelRegressor("exact"), {"alpha": [1e-3, 1e-2]}).fit(X, y)
    found, expected = (shapley_values(m, ROWS) for m in (search, search.best_estimator_))
    np.testing.assert_array_equal(found.values, expected.values)


def test_sparse_rows_are_explained_as_dense_ones():
    rows = sparse.random(200, 12, density=0.3, random_state=0, format="csr")
    target = rows.toarray().sum(axis=1) + rows.toarray()[:, 0] ** 2
    model = mercer.KernelRegressor("exact", kernel="laplacian", scale=False, alpha=1e-3)
    found, expected = (
        shapley_values(model.fit(table, target), table[:5], table[50:60])
        for table in (rows, rows.toarray())
    )
    np.testing.assert_allclose(found.values, expected.values, atol=1e-9)


# -- known answers ---------------------------------------------------------------------------------


def test_additive_functions_are_their_parts():
    model = regressor("linear", alpha=1e-9)
    found = shapley_values(model, ROWS, X)
    expected = (ROWS - X.mean(axis=0)) * model.coef_
    np.testing.assert_allclose(found.values, expected, atol=1e-12)
    pairs = shapley_values(model, ROWS, X, interactions=True).values
    assert not pairs[:, ~np.eye(4, dtype=bool)].any()


def test_twin_columns_share():
    twins = np.c_[X, X[:, 0]]
    model = mercer.KernelRegressor("exact", alpha=1e-4).fit(twins, y)
    values = shapley_values(model, twins[:20]).values
    np.testing.assert_allclose(values[:, 4], values[:, 0], atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("gamma", [0.01, 1.0])
def test_nodes_are_added_until_values_sum_to_the_response(dtype, gamma):
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(80, 60)).astype(dtype)
    model = mercer.KernelRegressor("exact", kernel="laplacian", gamma=gamma, alpha=1e-2)
    model.fit(rows, rows[:, 0])
    found = shapley_values(model, rows)
    size = np.ptp(model.predict(rows))
    gap = found.values.sum(axis=1) + found.base_values - model.predict(rows)
    assert np.abs(gap).max() <= size * (1e-5 if dtype == np.float32 else 1e-10)


@pytest.mark.rounding
def test_threads_change_no_bit():
    model = regressor()
    one, three = (shapley_values(model, X, n_jobs=n).values for n in (1, 3))
    np.testing.assert_array_equal(one, three)


# -- results ---------------------------------------------------------------------------------------


def test_importances_are_sorted_means_with_intervals():
    model = regressor()
    found = shapley_values(model, X)
    table = found.importances(level=0.8)
    sizes = np.abs(found.values).mean(axis=0)
    np.testing.assert_allclose(table["importance"], np.sort(sizes)[::-1])
    assert (table["low"] < table["importance"]).all()
    assert (table["importance"] < table["high"]).all()
    wide = found.importances(level=0.99)
    assert (wide["high"] - wide["low"] > table["high"] - table["low"]).all()
    pairs = shapley_values(model, X, interactions=True).importances()
    np.testing.assert_allclose(pairs["importance"], table["importance"])


def test_plots_of_shap_take_the_values(monkeypatch, automatic):
    table, model, _ = automatic
    found = shapley_values(model, table[:3])
    told = SimpleNamespace(Explanation=lambda values, **others: SimpleNamespace(**others))
    monkeypatch.setitem(sys.modules, "shap", told)
    explanation = found.to_shap()
    assert explanation.feature_names == list(table.columns)
    assert explanation.base_values.shape == (3,)
    assert explanation.data.shape == (3, 5)
    monkeypatch.setitem(sys.modules, "shap", None)
    with pytest.raises(ImportError, match="pip install shap"):
        found.to_shap()


def test_wrong_arguments_are_refused_in_a_sentence():
    model = regressor()
    with pytest.raises(NotFittedError):
        shapley_values(mercer.KernelRegressor(), X)
    with pytest.raises(ValueError, match="features"):
        shapley_values(model, X[:, :3])
    with pytest.raises(ValueError, match="0 sample"):
        shapley_values(model, X[:0])
    with pytest.raises(ValueError, match=r"background must be rows as the model takes them: .*NaN"):
        shapley_values(model, X, np.full((2, 4), np.nan))
    with pytest.raises(ValueError, match="background must be given"):
        shapley_values(regressor("fourier"), X)
    with pytest.raises(ValueError, match="baseline must be one of"):
        shapley_values(model, X, baseline="zero")
    with pytest.raises(ValueError, match="outputs must be None for one response"):
        shapley_values(model, X, outputs=1)
    with pytest.raises(ValueError, match="outputs must be among"):
        shapley_values(MODELS["classes"](), X, outputs=[7])
    with pytest.raises(ValueError, match="interactions must be False for models whose values"):
        shapley_values(ESTIMATED["exponential"](), X, interactions=True)
    with pytest.raises(ValueError, match="kernel matrix"):
        shapley_values(mercer.KernelRegressor(kernel="precomputed").fit(X @ X.T, y), X)
    texts = mercer.KernelRegressor("exact", kernel="ngram").fit(
        ["one two", "two", "three"], [1, 2, 3]
    )
    with pytest.raises(ValueError, match="texts"):
        shapley_values(texts, ["one"])
    with pytest.raises(TypeError, match="decision_function or predict"):
        shapley_values(StandardScaler().fit(X), X, X)


def test_memory_is_estimated_before_it_is_taken():
    model = regressor()
    with mercer.config_context(max_memory=100_000):
        with pytest.raises(MemoryError, match=r"factors of 60 background rows .* give fewer"):
            shapley_values(model, ROWS, X, baseline="rows")
        with pytest.raises(MemoryError, match=r"values of 3000 rows and 4 columns .* fewer rows"):
            shapley_values(model, np.tile(X, (50, 1)), BEHIND)


def test_one_background_row_is_a_baseline():
    model = regressor()
    found = shapley_values(model, ROWS, X[7])
    assert found.base_values == pytest.approx(model.predict(X[7:8])[0])
