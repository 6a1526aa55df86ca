"""Points of circles and spheres: their distances, and kernels of them."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.compose import make_column_transformer
from sklearn.gaussian_process.kernels import ExpSineSquared
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from mercer import KernelRegressor
from mercer.kernels import Gaussian, Laplacian
from mercer.preparation import on_circle, on_sphere

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
