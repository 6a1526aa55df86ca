"""Kernels of groups of columns: the kernels of the columns taken out, in every map."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from mercer import KernelRegressor, kernels, maps, persistence
from mercer.explain import shapley_values
from mercer.kernels import Gaussian, Laplacian, Linear, Matern, On
from mercer.unsupervised import OneClassKernel

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4))
FRAME = pd.DataFrame(X, columns=["lat", "day", "lon", "price"])
Y = np.sin(X[:, 0] * X[:, 2]) + X[:, 1]
SUM = Matern(gamma=0.4).on(["lat", "lon"]) + 0.5 * Laplacian(0.7).on(["day"])
PRODUCT = Laplacian(0.3).on([2, 0]) * Gaussian([0.2, 0.6]).on([3, 1])


@pytest.mark.parametrize("wide", [np.asarray, sparse.csr_array])
def test_it_is_the_kernel_of_the_columns_taken_out(wide):
    kernel, other = SUM.placed(FRAME.columns), RNG.normal(size=(5, 4))
    wanted = Matern(gamma=0.4)(X[:, [0, 2]], other[:, [0, 2]])
    wanted += 0.5 * Laplacian(0.7)(X[:, [1]], other[:, [1]])
    np.testing.assert_allclose(kernel(wide(X), wide(other)), wanted, atol=1e-12)
    np.testing.assert_allclose(np.diag(kernel(X)), kernel.diag(X))
    wanted = Laplacian(0.3)(X[:, [2, 0]]) * Gaussian([0.2, 0.6])(X[:, [3, 1]])
    np.testing.assert_allclose(PRODUCT(X), wanted, atol=1e-12)


@pytest.mark.parametrize("gamma", ["scale", "median"])
def test_scales_are_those_of_the_columns(gamma):
    found = Laplacian(gamma).on([1, 3]).resolve(X).gamma
    assert found == Laplacian(gamma).resolve(X[:, [1, 3]]).gamma


@pytest.mark.parametrize(
    ("map_", "kernel"),
    [
        (maps.RandomFourier(n_components=40_000, random_state=0), PRODUCT),
        (maps.RandomFourier(n_components=40_000, random_state=0), SUM.placed(FRAME.columns)),
        (maps.RandomBinning(n_components=20_000, random_state=0), Laplacian(0.5).on([1])),
        (
            maps.RandomBinning(n_components=20_000, random_state=0),
            Laplacian(0.3).on([2, 0]) * Laplacian(0.9).on([1]),
        ),
        (
            maps.RandomBinning(n_components=20_000, random_state=0),
            Laplacian(0.3).on([2, 0]) + Laplacian(0.9).on([0]),
        ),
        (maps.Nystroem(n_components=60, random_state=0), SUM.placed(FRAME.columns)),
    ],
)
def test_maps_approximate_it(map_, kernel):
    map_ = map_.set_params(kernel=kernel)
    Z = map_.fit_transform(X)
    product = Z @ Z.T
    product = product.toarray() if sparse.issparse(product) else product
    np.testing.assert_allclose(product, kernel(X), atol=0.04)


@pytest.mark.parametrize("feature_map", ["exact", "nystroem", "fourier"])
@pytest.mark.parametrize("kernel", [SUM, PRODUCT], ids=["sum", "product"])
def test_estimators_find_columns_by_name(feature_map, kernel, tmp_path):
    settings = {"random_state": 0, "alpha": 1e-3}
    if feature_map != "exact":
        settings["n_components"] = 50
    model = KernelRegressor(feature_map, kernel=kernel, **settings).fit(FRAME, Y)
    placed = kernel.placed(list(FRAME.columns))
    other = KernelRegressor(feature_map, kernel=placed, **settings).fit(X, Y)
    np.testing.assert_array_equal(model.predict(FRAME), other.predict(X))
    assert model.kernel is kernel  # as it was given
    persistence.save(model, tmp_path / "m.skops")
    loaded = persistence.load(tmp_path / "m.skops")
    np.testing.assert_array_equal(loaded.predict(FRAME), model.predict(FRAME))


@pytest.mark.parametrize("feature_map", ["exact", "fourier", "binning"])
def test_contributions_are_those_of_the_values_of_coalitions(feature_map):
    kernel = Laplacian(0.3).on([2, 0]) + 2.0 * Laplacian(0.7).on([1])
    model = KernelRegressor(feature_map, kernel=kernel, random_state=0).fit(X, Y)
    explained = shapley_values(model, X[:4], background=X)  # which knows all boxes
    whole = explained.values.sum(axis=1).ravel() + np.ravel(explained.base_values)
    np.testing.assert_allclose(whole, model.predict(X[:4]), atol=1e-5)
    np.testing.assert_allclose(explained.values[:, 3], 0.0, atol=1e-7)  # of no kernel


def test_onnx_and_unlabelled_models_take_it():
    runtime = pytest.importorskip("onnxruntime")
    from mercer import onnx

    for kernel in (PRODUCT, SUM.placed(FRAME.columns)):
        model = KernelRegressor("exact", kernel=kernel).fit(X, Y)
        session = runtime.InferenceSession(onnx.to_onnx(model, X[:3]).SerializeToString())
        [found] = session.run(None, {session.get_inputs()[0].name: X})
        np.testing.assert_allclose(found.ravel(), model.predict(X), atol=1e-9)
    scores = OneClassKernel(kernel=SUM).fit(FRAME).score_samples(FRAME)
    assert np.isfinite(scores).all()


def test_gammas_of_a_path_are_those_of_the_inner_kernel():
    kernel = Gaussian().on([0, 2])
    model = KernelRegressor("exact", kernel=kernel, gamma_path=[0.1, 1.0]).fit(X, Y)
    assert model.feature_map_.kernel_.gamma in (0.1, 1.0)
    assert kernels.get(kernel, 0.5) == Gaussian(0.5).on([0, 2])


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: Gaussian().on([]), ValueError, "columns must name at least one column"),
        (lambda: Gaussian().on([0, 0]), ValueError, "each once; got"),
        (lambda: Gaussian().on("lat"), TypeError, "columns must be a sequence of positions"),
        (lambda: Gaussian().on([-1]), ValueError, "columns must be positions from 0 on"),
        (lambda: Gaussian().on([0.5]), ValueError, "columns must be positions from 0 on"),
        (lambda: Gaussian(1.0).on([7])(X), ValueError, "positions below 4, the number of inputs"),
        (lambda: SUM(X), ValueError, "columns must be positions here; got 'lat'"),
        (lambda: On("gaussian", [0]), TypeError, "kernel must be a kernel of numbers"),
        (
            lambda: KernelRegressor(kernel=Gaussian().on(["lot"])).fit(FRAME, Y),
            ValueError,
            "columns must name columns of X; got 'lot', and X has",
        ),
        (
            lambda: KernelRegressor(kernel=SUM).fit(X, Y),
            ValueError,
            "got 'lat', and X has no names of columns",
        ),
        (
            lambda: maps.RandomBinning(kernel=Linear().on([0])).fit(X),
            kernels.NotRepresentable,
            "has no bin widths",
        ),
        (
            lambda: maps.RandomBinning(
                kernel=Laplacian(1.0).on([0, 1]) * Laplacian(1.0).on([1])
            ).fit(X),
            kernels.NotRepresentable,
            "a product of kernels is no mean over single grids",
        ),
    ],
)
def test_refusals(make, error, words):
    with pytest.raises(error, match=words):
        make()
