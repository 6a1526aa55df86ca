"""Data that stay in their file: never copied, and the same model as from an array."""

import re
import tracemalloc
import warnings

import numpy as np
import pytest

import mercer
from mercer import KernelClassifier, KernelRegressor
from mercer.maps import Nystroem
from mercer.solvers import BlockCoordinateDescent

N, D = 20_000, 40
SETTINGS = {
    "binning": {"n_components": 16, "gamma": 0.001, "solver": "cg", "tol": 1e-2},
    "fourier": {"n_components": 24},
    "fastfood": {"n_components": 24},
    "nystroem": {"n_components": 24, "solver": "auto", "tol": 1e-8},
    "linear": {},
    "tefm": {"n_components": 8},
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A read-only memory map of 6 MB, and targets."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D)) * np.logspace(-1, 1, D) + 3.0
    path = tmp_path_factory.mktemp("data") / "X.npy"
    np.save(path, X)
    return np.load(path, mmap_mode="r"), np.sin(X[:, 0]) + 0.1 * X[:, -1]


@pytest.fixture
def in_pieces(monkeypatch):
    """As if this were a lot of data."""
    monkeypatch.setattr("mercer._runtime.rows._LARGE", 2**20)
    monkeypatch.setattr("mercer._runtime.arrays.CHUNK_BYTES", 2**19)
    monkeypatch.setattr("mercer._runtime.arrays._CHUNK_SHARE", 12)
    monkeypatch.setattr("mercer.maps.binning._PIECE_BYTES", 2**19)


def model(name, kind=KernelRegressor, **settings):
    fixed = {"random_state": 0, "solver": "cholesky", "n_jobs": 1}
    return kind(name, **(fixed | SETTINGS[name] | settings))


class Peak:
    """Bytes of arrays that were held at once, besides those held before."""

    def __enter__(self):
        tracemalloc.start()
        return self

    def __exit__(self, *_):
        self.bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()


@pytest.mark.parametrize("name", SETTINGS)
def test_a_memory_map_is_fitted_and_predicted_without_a_copy(name, data, in_pieces):
    X, y = data
    with mercer.config_context(max_memory="6MB"), Peak() as fit:
        capped = model(name).fit(X, y)
    with mercer.config_context(max_memory="6MB"), Peak() as predict:
        predicted = capped.predict(X)
    assert fit.bytes < 0.75 * X.nbytes
    assert predict.bytes < 0.25 * X.nbytes
    assert np.isfinite(predicted).all()


@pytest.mark.parametrize("name", ["fourier", "nystroem"])
def test_conjugate_gradients_keep_to_the_memory_allowed(name, data, tmp_path, monkeypatch):
    monkeypatch.setattr("mercer._runtime.arrays._CHUNK_SHARE", 8)
    X, y = data
    np.save(tmp_path / "X.npy", X.astype(np.float32))
    X = np.load(tmp_path / "X.npy", mmap_mode="r")
    settings = {"solver": "cg", "n_components": 200, "tol": 1e-5, "max_iter": 500, "alpha": 0.3}
    whole = model(name, **settings).fit(np.array(X), y).predict(X[:500])
    needed = 200 * X.shape[0] * X.itemsize
    with mercer.config_context(max_memory=needed // 2), Peak() as peak:
        capped = model(name, **settings).fit(X, y).predict(X[:500])
    assert peak.bytes < 0.75 * needed
    np.testing.assert_allclose(capped, whole, atol=1e-4 * np.abs(whole).max())


@pytest.mark.rounding
@pytest.mark.parametrize("name", SETTINGS)
def test_what_memory_there_is_makes_no_difference_to_the_model(name, data, request):
    X, y = data
    whole = model(name).fit(np.array(X), y).predict(X[:500])
    request.getfixturevalue("in_pieces")
    with mercer.config_context(max_memory="6MB"):
        capped = model(name).fit(X, y).predict(X[:500])
    np.testing.assert_allclose(capped, whole, atol=1e-7 * np.abs(whole).max())


@pytest.mark.parametrize("name", ["binning", "fourier", "nystroem"])
@pytest.mark.parametrize(
    "settings",
    [{"scale": False}, {"gamma": "scale", "gamma_path": [0.001, 0.01]}],
    ids=["unscaled", "path of gamma"],
)
def test_settings_that_look_at_the_data_look_at_them_in_pieces(name, settings, data, in_pieces):
    X, y = data
    models = []
    for some, cap in ((X, "6MB"), (np.array(X), None)):
        with mercer.config_context(max_memory=cap), Peak() as peak, warnings.catch_warnings():
            warnings.filterwarnings("ignore", "the inputs' scales differ")
            models.append(model(name, **settings).fit(some, y))
        if cap is not None:
            assert peak.bytes < X.nbytes
    capped, whole = models
    np.testing.assert_allclose(capped.predict(X[:99]), whole.predict(X[:99]), atol=1e-6)


def test_rows_without_weight_are_left_out_without_a_copy_of_the_others(data, in_pieces):
    X, y = data
    weights = np.ones(N)
    weights[::3] = 0.0
    with mercer.config_context(max_memory="6MB"), Peak() as peak:
        capped = model("fourier").fit(X, y, weights)
    rest = model("fourier").fit(X[weights > 0], y[weights > 0])
    assert peak.bytes < 0.75 * X.nbytes
    np.testing.assert_allclose(capped.predict(X[:99]), rest.predict(X[:99]), atol=1e-6)


@pytest.mark.parametrize("landmarks", ["uniform", "leverage", "rpcholesky"])
def test_landmarks_are_chosen_from_rows_in_their_file(landmarks, data, in_pieces):
    X, _ = data
    expected = Nystroem(0.01 * mercer_gaussian(), n_components=9, landmarks=landmarks)
    expected = expected.set_params(random_state=0).fit(np.array(X))
    found = Nystroem(0.01 * mercer_gaussian(), n_components=9, landmarks=landmarks, random_state=0)
    found.fit_design(X, lambda rows: rows)
    np.testing.assert_allclose(found.landmarks_, expected.landmarks_)


def mercer_gaussian():
    from mercer.kernels import Gaussian

    return Gaussian(0.001)


def test_classes_are_told_apart_from_their_file(data, in_pieces):
    X, y = data
    labels = np.where(y > np.median(y), "above", "below")
    with mercer.config_context(max_memory="6MB"), Peak() as peak:
        capped = model("fourier", KernelClassifier).fit(X, labels)
    whole = model("fourier", KernelClassifier).fit(np.array(X), labels)
    assert peak.bytes < X.nbytes
    np.testing.assert_array_equal(capped.predict(X[:500]), whole.predict(X[:500]))


@pytest.mark.rounding
def test_columns_that_lie_together_are_read_all_the_same(data, in_pieces, tmp_path):
    X, y = data
    np.save(tmp_path / "F.npy", np.asfortranarray(X))
    by_columns = np.load(tmp_path / "F.npy", mmap_mode="r")
    assert by_columns.flags.f_contiguous
    with mercer.config_context(max_memory="6MB"), Peak() as peak:
        capped = model("fourier").fit(by_columns, y)
    assert peak.bytes < 0.75 * X.nbytes
    np.testing.assert_allclose(
        capped.predict(X[:99]), model("fourier").fit(X, y).predict(X[:99]), atol=1e-6
    )


def test_numbers_that_are_not_floats_need_room_for_a_copy(data, in_pieces, monkeypatch):
    X, y = data
    whole = np.rint(np.array(X)).astype(np.int64)
    monkeypatch.setattr("mercer._runtime.arrays.available_memory", lambda: 6_000_000)
    with pytest.raises(
        MemoryError, match=r"a copy of X, whose numbers are int64, .*needs 6\.1 MB.*; store X as"
    ):
        model("fourier").fit(whole, y)


def test_a_copy_that_cannot_be_avoided_is_refused_where_it_would_not_fit(data, in_pieces):
    X, y = data
    with (
        mercer.config_context(max_memory="5MB"),
        pytest.raises(MemoryError, match=r"a prepared copy of 20000 rows of 40 inputs needs 6.*MB"),
    ):
        KernelRegressor("perceptron", n_components=8, random_state=0).fit(X, y)


@pytest.mark.parametrize("settings", [{}, {"alphas": [1e-4, 1e-2]}], ids=["one alpha", "a path"])
def test_an_interrupted_block_fit_leaves_a_model_that_predicts(settings, data):
    X, y = data[0][:400], data[1][:400]
    seen = []

    class Stop(BlockCoordinateDescent):
        def _one_block(self, state, number):
            if len(state.blocks) > 1 and state.problem.n_rows == 400:
                seen.append(number)
                if len(seen) == 5:
                    raise KeyboardInterrupt
            super()._one_block(state, number)

    machine = KernelRegressor("exact", solver=Stop(block_size=50, tol=1e-12), **settings)
    with pytest.raises(KeyboardInterrupt, match="the model holds the last iterate"):
        machine.fit(X, y)
    assert len(seen) == 5
    left = np.mean((machine.predict(X) - y) ** 2)
    assert left < y.var()


def test_a_refused_machine_says_for_how_many_rows_there_is_room(data):
    X, y = data[0][:2000], data[1][:2000]
    with (
        mercer.config_context(max_memory="16MB"),
        pytest.raises(MemoryError, match=r"2000 rows .* needs 61.0 MB .* at most \d+ rows") as said,
    ):
        KernelRegressor("exact", solver="cholesky").fit(X, y)
    n = int(re.search(r"(\d+) rows\.$", str(said.value))[1])
    with mercer.config_context(max_memory="16MB"):
        KernelRegressor("exact", solver="cholesky").fit(X[: n // 2], y[: n // 2])
