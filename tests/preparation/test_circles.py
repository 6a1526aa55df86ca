"""Points of circles and spheres: their distances, and kernels of them."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.gaussian_process.kernels import ExpSineSquared
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from mercer import (
    DoublySGDRegressor,
    DualKernelSVC,
    KernelRegressor,
    LocalKernelRegressor,
    SparseKernelRegressor,
)
from mercer.distributed import Here, Shard
from mercer.distributed.models import fit_over
from mercer.kernels import Gaussian, Laplacian
from mercer.persistence import load, save
from mercer.preparation import on_circle, on_sphere
from mercer.unsupervised import OneClassKernel

RNG = np.random.default_rng(0)


def test_a_gaussian_of_a_circle_is_the_periodic_kernel():
    x, period, length = RNG.uniform(0, 50, 20), 7.0, 0.8
    points = on_circle(x, period)
    wanted = ExpSineSquared(length_scale=length, periodicity=period)(x[:, None])
    np.testing.assert_allclose(Gaussian(0.5 / length**2)(points), wanted, atol=1e-12)
    np.testing.assert_allclose(on_circle(x + period, period), points, atol=1e-12)


def test_chords_of_the_sphere_are_those_of_great_circles():
    places = np.column_stack([RNG.uniform(-90, 90, 30), RNG.uniform(-180, 360, 30)])
    (a, b), (c, d) = np.radians(places).T, np.radians(places).T
    cosine = np.sin(a)[:, None] * np.sin(c) + np.cos(a)[:, None] * np.cos(c) * np.cos(
        b[:, None] - d
    )
    wanted = 2 * np.sin(0.5 * np.arccos(np.clip(cosine, -1, 1)))
    points = on_sphere(places)
    np.testing.assert_allclose(cdist(points, points), wanted, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1.0)


def test_they_stand_before_a_kernel_of_groups_in_a_pipeline():
    hours, place = RNG.uniform(0, 24, 200), RNG.normal(size=200)
    X, y = np.column_stack([hours, place]), np.cos(2 * np.pi * hours / 24) + 0.3 * place
    circle = FunctionTransformer(on_circle, kw_args={"period": 24.0})
    columns = make_column_transformer((circle, [0]), remainder="passthrough")
    kernel = Gaussian(0.5).on([0, 1]) + Laplacian(0.5).on([2])
    model = make_pipeline(columns, KernelRegressor("exact", kernel=kernel)).fit(X, y)
    assert model.score(X, y) > 0.99
    ends = model.predict([[0.0, 0.0], [24.0, 0.0]])
    assert ends[0] == pytest.approx(ends[1])


def test_missing_numbers_stay_missing():
    assert np.isnan(on_circle([np.nan, 1.0], 2.0)[0]).all()
    assert np.isnan(on_sphere([[np.nan, 1.0]])).any()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: on_circle([1.0], 0), "period must be"),
        (lambda: on_circle([np.inf], 1.0), "Input X contains infinity"),
        (lambda: on_sphere([[1.0, 2.0, 3.0]]), "X must have two columns, latitude and longitude"),
        (lambda: on_sphere([[np.nan, 1.0], [91.0, 0.0]]), "latitudes from -90 to 90 .* got 91"),
    ],
)
def test_refusals(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def hours_of_day(n=400):
    return np.sort(np.random.default_rng(0).beta(2, 5, n) * 24)


@pytest.mark.parametrize("names", [[0, 1], ["sin", "cos"]])
def test_coordinates_that_share_a_scale_keep_steps_of_an_hour_equal(names):
    hours = hours_of_day()
    X = pd.DataFrame(on_circle(hours, 24), columns=["sin", "cos"]).assign(other=hours**2)
    model = KernelRegressor("exact", scale=[names]).fit(X, np.sin(hours))
    of_day = on_circle(np.arange(25), 24) / model.scaler_.scale_[:2]
    steps = np.linalg.norm(np.diff(of_day, axis=0), axis=1)
    np.testing.assert_allclose(steps, steps[0])
    assert model.scaler_.scale_[0] ** 2 == pytest.approx(model.scaler_.var_[:2].mean())
    np.testing.assert_allclose(model.scaler_.scale_[2], (hours**2).std())


GROUPED = [
    KernelRegressor("fourier", n_components=30, random_state=0),
    LocalKernelRegressor(leaf_size=50, random_state=0),
    SparseKernelRegressor(max_rounds=2, random_state=0),
    DoublySGDRegressor(max_iter=3, random_state=0),
    DualKernelSVC(),
    OneClassKernel(random_state=0),
]


@pytest.mark.parametrize("model", GROUPED, ids=lambda model: type(model).__name__)
def test_all_models_take_groups_of_columns_that_share_a_scale(model, tmp_path):
    places = np.column_stack([RNG.uniform(30, 60, 120), RNG.uniform(-10, 40, 120)])
    X, y = on_sphere(places), places[:, 0]
    y = y > 45 if isinstance(model, DualKernelSVC) else y
    given = (X,) if isinstance(model, OneClassKernel) else (X, y)
    model = clone(model).set_params(scale=[[0, 1, 2]]).fit(*given)
    assert np.ptp(model.scaler_.scale_) == 0
    save(model, tmp_path / "model.skops")
    np.testing.assert_array_equal(load(tmp_path / "model.skops").predict(X), model.predict(X))


def test_shards_and_sparse_rows_share_scales_as_rows_of_one_process():
    X, y = on_circle(hours_of_day(90), 24), hours_of_day(90)
    model = KernelRegressor("exact", scale=[[0, 1]])
    far = fit_over(clone(model), Here([Shard(X[i::2], y[i::2]) for i in range(2)]))
    here = clone(model).fit(X, y)
    np.testing.assert_allclose(far.scaler_.scale_, here.scaler_.scale_)
    of_sparse = clone(model).fit(sparse.csr_array(0.5 * X), y).scaler_
    np.testing.assert_allclose(of_sparse.scale_, 0.5 * np.abs(X).max())


@pytest.mark.parametrize(
    ("scale", "rule"),
    [
        ([[0]], "groups of two columns or more that share a scale"),
        ([], "groups of two columns or more that share a scale"),
        ([0, 1], "groups of two columns or more that share a scale"),
        ([[0, 2]], r"scale must have groups of positions from 0 to 1, each once; got 2\."),
        ([[0, 1], [1, 0]], "each once; got 0"),
        ([["a", "b"]], "scale must name columns of X; got 'a', and X has no names of columns"),
    ],
)
def test_groups_that_are_none_are_refused_in_one_sentence(scale, rule):
    X = on_circle(hours_of_day(30), 24)
    with pytest.raises(ValueError, match=rule):
        KernelRegressor("exact", scale=scale).fit(X, X[:, 0])
