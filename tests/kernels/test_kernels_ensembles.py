"""Perceptron kernels are means over random planes (T-K2)."""

import pickle
import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.spatial.distance import cdist

import mercer.kernels.ensembles
from mercer import KernelClassifier, kernels, persistence
from mercer._runtime.random import Streams
from mercer.kernels import Linear, NotRepresentable, Perceptron, perceptron_constant

STANDARD_ERRORS = 5.0


def quietly(kernel, X, Y=None):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "some rows are farther than radius")
        return kernel(X, Y)


@pytest.fixture(params=[Perceptron(), Perceptron(homogeneous=True), Linear()], ids=repr)
def resolved(request, X):
    return request.param.resolve(X)


def test_examples_run(check_examples):
    check_examples(mercer.kernels.ensembles)
    check_examples(mercer.kernels.dots)


class TestLaws:
    def test_is_symmetric_positive_semidefinite_with_its_diagonal(self, resolved, X):
        K = resolved(X)
        np.testing.assert_allclose(K, K.T, rtol=0, atol=1e-14)
        assert np.linalg.eigvalsh(K).min() >= -1e-10 * len(X)
        np.testing.assert_allclose(np.diag(K), resolved.diag(X), rtol=1e-15)
        assert isinstance(resolved, Linear) or (np.diag(K) == 1.0).all()

    @pytest.mark.rounding
    def test_sparse_equals_dense(self, resolved, X, X_csr):
        expected = resolved(X, X[:11])
        for pair in [(X_csr, X_csr[:11]), (X_csr, X[:11]), (X, X_csr[:11])]:
            np.testing.assert_allclose(resolved(*pair), expected, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(resolved.diag(X_csr), resolved.diag(X), rtol=1e-15)

    @pytest.mark.rounding
    def test_sparse_data_resolve_as_dense(self, X, X_csr):
        kernel = Perceptron()
        dense, csr = kernel.resolve(X), kernel.resolve(X_csr)
        np.testing.assert_allclose(csr(X), dense(X), rtol=1e-12, atol=1e-14)
        assert csr.delta == pytest.approx(dense.delta, rel=1e-14)

    def test_dtype_is_kept_and_float32_is_accurate(self, resolved, X):
        single = X.astype(np.float32)
        K = resolved(single)
        assert K.dtype == resolved.diag(single).dtype == np.float32
        np.testing.assert_allclose(K, resolved(single.astype(np.float64)), rtol=1e-6, atol=1e-6)

    @pytest.mark.rounding
    def test_rows_are_chunked_without_changing_the_result(self, resolved, X, X_csr, monkeypatch):
        whole, whole_csr = resolved(X), resolved(X_csr)
        for module in (mercer.kernels.ensembles, mercer.kernels.dots):
            for name in ("blocks", "row_chunks"):
                by_seven = lambda X, *_: (  # noqa: E731
                    slice(i, i + 7) for i in range(0, X if isinstance(X, int) else X.shape[0], 7)
                )
                monkeypatch.setattr(module, name, by_seven, raising=False)
        np.testing.assert_allclose(resolved(X), whole, rtol=1e-13, atol=1e-15)
        np.testing.assert_allclose(resolved(X_csr), whole_csr, rtol=1e-13, atol=1e-15)

    def test_resolves_to_itself_and_is_a_value(self, resolved, X):
        assert resolved.is_resolved
        assert resolved.resolve(X[:3]) == resolved
        assert pickle.loads(pickle.dumps(resolved)) == resolved
        assert len({resolved, resolved.resolve(X)}) == 1
        assert resolved.gamma is None

    def test_weights_are_copies_of_rows(self, X, rng):
        kernel = Perceptron()
        weights = rng.integers(0, 3, size=len(X))
        weights[np.abs(X).max(axis=1).argmax()] = 0
        copies = np.repeat(X, weights, axis=0)
        weighted, copied = kernel.resolve(X, weights), kernel.resolve(copies)
        np.testing.assert_allclose(quietly(weighted, X), quietly(copied, X), rtol=1e-12, atol=1e-14)
        assert weighted.delta == pytest.approx(copied.delta)

    def test_constant_data_have_kernel_one(self):
        X = np.full((5, 3), 0.7)
        np.testing.assert_array_equal(Perceptron().resolve(X)(X), 1.0)

    def test_without_samplers_the_error_names_the_maps_that_work(self, resolved):
        streams = Streams(0, np.arange(3))
        with pytest.raises(NotRepresentable, match=r"spectral sampler.*'nystroem'"):
            resolved.frequencies(streams, 4)
        with pytest.raises(NotRepresentable, match=r"no bin widths, because it is .*'nystroem'"):
            resolved.widths(streams, 4)

    @pytest.mark.parametrize("name", ["perceptron", "linear"])
    def test_names_have_no_gamma(self, name):
        assert kernels.get(name) == {"perceptron": Perceptron(), "linear": Linear()}[name]
        with pytest.raises(ValueError, match=f"gamma must be left out beside kernel='{name}'"):
            kernels.get(name, 0.5)

    @pytest.mark.parametrize("name", ["perceptron", "linear"])
    def test_a_classifier_with_one_learns_and_is_saved(self, name, rng, tmp_path):
        X = rng.normal(size=(200, 3))
        y = X[:, 0] + 0.5 * X[:, 1] > 0
        model = KernelClassifier("nystroem", kernel=name, n_components=50, random_state=0)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "some rows are farther than radius")
            assert model.fit(X[:150], y[:150]).score(X[150:], y[150:]) > 0.85
            persistence.save(model, tmp_path / "model.skops")
            again = persistence.load(tmp_path / "model.skops")
            np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))


class TestPerceptron:
    def test_constants(self):
        found = [perceptron_constant(d) for d in (1, 2, 3, 4)]
        np.testing.assert_allclose(found, [1.0, 2 / np.pi, 0.5, 4 / (3 * np.pi)], rtol=1e-14)
        assert perceptron_constant(10_000) == pytest.approx(np.sqrt(2 / (np.pi * 1e4)), rel=1e-4)

    def test_delta_times_the_kernel_is_delta_less_the_distance(self, X):
        kernel = Perceptron().resolve(X)
        radius = np.linalg.norm(X - X.mean(axis=0), axis=1).max()
        assert kernel.radius == pytest.approx(radius, rel=1e-14)
        assert kernel.delta == pytest.approx(radius / perceptron_constant(4), rel=1e-14)
        np.testing.assert_allclose(
            (kernel.delta * kernel)(X), kernel.delta - cdist(X, X), rtol=0, atol=1e-12
        )

    def mean_over_planes(self, kernel, X, rng, n=400_000):
        """Mean products of signs and their standard errors, by drawing planes."""
        direction = rng.normal(size=(n, X.shape[1]))
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        threshold = rng.uniform(-kernel.radius, kernel.radius, size=(n, 1))
        signs = np.sign(direction @ (X - np.array(kernel.centre)).T - threshold)
        mean = signs.T @ signs / n
        return mean, np.sqrt(np.maximum(1.0 - mean**2, 1e-12) / n)

    @pytest.mark.parametrize("n_inputs", [1, 2, 3, 6])
    def test_is_the_mean_product_of_signs_within_the_ball_and_outside(self, n_inputs, rng):
        X = rng.normal(size=(8, n_inputs))
        X[5:] *= [[3.0], [10.0], [1000.0]]
        kernel = Perceptron(radius=1.7, centre=np.full(n_inputs, 0.2))
        mean, error = self.mean_over_planes(kernel, X, rng)
        with pytest.warns(UserWarning, match=r"farther than radius=1.7 from the centre"):
            K = kernel(X)
        assert (abs(K - mean) < STANDARD_ERRORS * error).all()
        assert np.linalg.eigvalsh(K).min() > -1e-12
        np.testing.assert_allclose(quietly(kernel, sparse.csr_array(X)), K, rtol=0, atol=1e-10)

    @pytest.mark.parametrize("n_inputs", [2, 3, 5, 50])
    def test_outside_the_ball_agrees_with_the_integral_over_the_circle(self, n_inputs, rng):
        """Planes seen along the two dimensions of x and y, with the numbers that a
        direction has there: (u cos a, u sin a), where 1 - u**2 is beta distributed."""
        x, y = np.zeros((2, n_inputs))
        x[:2], y[:2] = (2.5, 0.3), (-0.4, 1.2)
        angle = (np.arange(20_000) + 0.5) * 2 * np.pi / 20_000
        nodes, weights = np.polynomial.legendre.leggauss(200)
        level = 0.5 * (1.0 + nodes)  # of the distribution 1 - (1 - u**2)**(d/2 - 1)
        u = np.ones(1) if n_inputs == 2 else np.sqrt(1 - (1 - level) ** (2 / (n_inputs - 2)))
        weights = np.ones(1) if n_inputs == 2 else weights / 2
        along = [
            np.clip(u[:, None] * (v[0] * np.cos(angle) + v[1] * np.sin(angle)), -1, 1)
            for v in (x, y)
        ]
        expected = 1 - weights @ abs(along[0] - along[1]).mean(axis=1)
        found = quietly(Perceptron(1.0, centre=np.zeros(n_inputs)), x[None], y[None])
        assert found[0, 0] == pytest.approx(expected, abs=2e-6)

    def test_is_continuous_at_the_edge_of_the_ball(self, rng):
        x = rng.normal(size=(1, 4))
        x /= np.linalg.norm(x)
        kernel = Perceptron(1.0, centre=np.zeros(4))
        Y = rng.normal(size=(5, 4)) / 4
        inside, outside = (quietly(kernel, s * x, Y) for s in (1 - 1e-7, 1 + 1e-7))
        np.testing.assert_allclose(inside, outside, rtol=0, atol=1e-6)

    def test_training_data_are_never_outside(self, X, recwarn):
        for data in (X, X.astype(np.float32), sparse.csr_array(X.astype(np.float32))):
            kernel = Perceptron().resolve(data)
            kernel(data)
        assert not recwarn.list

    def test_homogeneous_is_the_angle_between_augmented_rows(self, X):
        rows = np.hstack([X, np.ones((len(X), 1))])
        cosine = 1 - cdist(rows, rows, "cosine")
        expected = 1 - 2 / np.pi * np.arccos(np.clip(cosine, -1, 1))
        kernel = Perceptron(homogeneous=True)
        assert kernel.is_resolved
        np.testing.assert_allclose(kernel(X), expected, rtol=0, atol=1e-7)

    @pytest.mark.parametrize(
        ("make", "error", "message"),
        [
            (lambda: Perceptron(0.0), ValueError, "radius must be positive and finite; got 0.0"),
            (lambda: Perceptron("mean"), ValueError, "number or 'max'; got 'mean'"),
            (lambda: Perceptron(homogeneous=1), TypeError, "homogeneous must be True or False"),
            (lambda: Perceptron(centre="max"), ValueError, "an array or 'mean'; got 'max'"),
            (lambda: Perceptron(centre=[[1.0]]), ValueError, "centre must be finite numbers, one"),
            (lambda: Perceptron(centre=[np.inf]), ValueError, "centre must be finite numbers"),
            (lambda: Perceptron()([[1.0]]), ValueError, "got 'max' and 'mean': call resolve"),
            (lambda: Perceptron().delta, ValueError, "call resolve"),
            (
                lambda: Perceptron(centre=[1.0]).resolve([[1.0, 2.0]]),
                ValueError,
                "centre must have one entry per input; got 1 for 2 inputs",
            ),
            (lambda: Perceptron().resolve([[1e200], [0.0]]), ValueError, "X is too large"),
        ],
    )
    def test_what_makes_no_sense_is_refused_in_one_sentence(self, make, error, message):
        with pytest.raises(error, match=message):
            make()


def test_linear_is_the_dot_product(X, X_csr):
    np.testing.assert_allclose(Linear()(X, X[:5]), X @ X[:5].T, rtol=1e-14)
    with pytest.raises(ValueError, match="products overflow; rescale it"):
        Linear()([[1e200]])
