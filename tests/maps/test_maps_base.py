"""The laws of every feature map. A map's own test file inherits them: see ``MapLaws``."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import mercer.maps
import mercer.maps.base
from _conventions import parametrize_with_settings
from mercer._runtime.rows import PreparedRows
from mercer.designs import Dense, Lazy, Sparse
from mercer.kernels import Stationary
from mercer.maps import FeatureMap, IdentityMap, Nystroem, RandomBinning, RandomFourier


def dense(Z):
    return Z.toarray() if sparse.issparse(Z) else np.asarray(Z)


def assert_equal_up_to_rounding(actual, expected):
    actual, expected = dense(actual), dense(expected)
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    tolerance = 1e-12 if expected.dtype == np.float64 else 2e-5
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance)


class MapLaws:
    """What holds for every map; a subclass says how to make one.

    ``make(**settings)`` returns an unfitted map with a fixed ``random_state`` that is small enough
    for 40 rows of 4 inputs and whose kernel is not extreme.
    """

    is_random = True  # another seed gives other features
    has_gamma = True  # there is a kernel with a scale
    names_are_inputs = False  # columns are named after the inputs
    may_be_lazy = True  # the design regenerates its columns where they would not fit

    def make(self, **settings):
        raise NotImplementedError

    @pytest.fixture
    def feature_map(self):
        return self.make()

    def assert_same_map(self, one, other, X):
        """Two maps that were fitted to the same data in different forms."""
        assert_equal_up_to_rounding(one.transform(X), other.transform(X))

    # Columns.

    def test_block_equals_columns_of_transform(self, feature_map, X, X_csr, dtype):
        X, X_csr = X.astype(dtype), X_csr.astype(dtype)
        Z = dense(feature_map.fit(X).transform(X))
        assert Z.shape == (40, feature_map.n_features_out_)
        last = Z.shape[1] - 1
        for columns in ([0], [last, 0], [last // 2, last, 1, 1], np.arange(last + 1)[::-1], []):
            for data in (X, X_csr):
                block = feature_map.transform_block(data, columns)
                assert isinstance(block, np.ndarray)
                assert_equal_up_to_rounding(block, Z[:, np.asarray(columns, dtype=int)])

    @pytest.mark.rounding
    def test_columns_are_the_same_however_asked(self, feature_map, X):
        feature_map.fit(X)
        whole = feature_map.transform_block(X, np.arange(feature_map.n_features_out_))
        for column in range(feature_map.n_features_out_):
            alone = feature_map.transform_block(X, [column])[:, 0]
            np.testing.assert_allclose(alone, whole[:, column], rtol=0, atol=1e-12)

    @pytest.mark.parametrize(
        ("columns", "error", "message"),
        [
            ([-1], ValueError, "columns must be at least 0 and below [0-9]+; got -1"),
            ([0, 10**9], ValueError, "columns must be at least 0 and below [0-9]+; got 1000000000"),
            ([0.0], TypeError, r"columns must be a one-dimensional array of integers; got \[0.0\]"),
            ([[0]], TypeError, r"one-dimensional array of integers; got \[\[0\]\]"),
            (0, TypeError, "one-dimensional array of integers; got 0"),
            (["a"], TypeError, "one-dimensional array of integers"),
        ],
    )
    def test_columns_that_do_not_exist_are_refused(self, feature_map, X, columns, error, message):
        with pytest.raises(error, match=message):
            feature_map.fit(X).transform_block(X, columns)

    # Data.

    def test_dtype_is_kept(self, feature_map, X, dtype):
        X = X.astype(dtype)
        assert feature_map.fit_transform(X).dtype == dtype
        assert feature_map.transform_block(X, [0]).dtype == dtype
        assert feature_map.design(X).dtype == dtype

    def test_fitted_in_one_dtype_transforms_the_other(self, feature_map, X):
        X = X.astype(np.float32).astype(np.float64)
        Z = dense(feature_map.fit(X).transform(X))
        Z32 = dense(feature_map.transform(X.astype(np.float32)))
        assert Z32.dtype == np.float32
        np.testing.assert_allclose(Z32, Z, atol=1e-5)

    def test_sparse_equals_dense(self, feature_map, X, X_csr, dtype):
        X, X_csr = X.astype(dtype), X_csr.astype(dtype)
        Z = feature_map.fit(X).transform(X)
        assert_equal_up_to_rounding(feature_map.transform(X_csr), Z)
        self.assert_same_map(self.make().fit(X_csr), feature_map, X)
        self.assert_same_map(self.make().fit(X_csr), feature_map, X_csr)

    def test_every_sparse_form_is_the_same(self, feature_map, X, X_csr):
        Z = feature_map.fit(X).transform(X)
        wide = sparse.csr_array(
            (X_csr.data, X_csr.indices.astype(np.int64), X_csr.indptr.astype(np.int64)),
            shape=X_csr.shape,
        )
        for form in (wide, sparse.csr_matrix(X), sparse.csc_array(X), sparse.coo_array(X)):
            assert_equal_up_to_rounding(feature_map.transform(form), Z)

    def test_repeated_sparse_entries_are_summed_and_the_callers_matrix_kept(
        self, feature_map, X, X_csr
    ):
        repeated = sparse.csr_array(
            (
                np.repeat(X_csr.data, 2) / 2,
                np.repeat(X_csr.indices, 2),
                2 * X_csr.indptr,
            ),
            shape=X_csr.shape,
        )
        repeated.has_canonical_format = False
        before = repeated.data.copy()
        assert_equal_up_to_rounding(
            feature_map.fit(X).transform(repeated), feature_map.transform(X)
        )
        np.testing.assert_array_equal(repeated.data, before)

    def test_every_layout_is_the_same_and_stays_untouched(self, feature_map, X):
        Z = feature_map.fit(X).transform(X)
        read_only = X.copy()
        read_only.flags.writeable = False
        strided = np.repeat(X, 2, axis=0)[::2]
        for data in (np.asfortranarray(X), read_only, strided, X.tolist(), X.astype(">f8")):
            assert_equal_up_to_rounding(self.make().fit(data).transform(data), Z)

    def test_integers_are_numbers(self, feature_map, X):
        X = np.round(2 * X)
        Z = feature_map.fit(X).transform(X)
        assert_equal_up_to_rounding(feature_map.transform(X.astype(np.int64)), Z)
        assert_equal_up_to_rounding(feature_map.transform(X.astype(np.float16)), Z)

    def test_rows_do_not_depend_on_each_other(self, feature_map, X, dtype):
        X = X.astype(dtype)
        Z = dense(feature_map.fit(X).transform(X))
        chunks = [feature_map.transform(X[start : start + 13]) for start in range(0, 40, 13)]
        assert_equal_up_to_rounding(np.vstack([dense(chunk) for chunk in chunks]), Z)
        order = np.random.default_rng(0).permutation(40)
        assert_equal_up_to_rounding(feature_map.transform(X[order]), Z[order])

    @pytest.mark.rounding
    def test_equal_rows_have_equal_features(self, feature_map, X):
        Z = dense(feature_map.fit(X).transform(X))
        np.testing.assert_allclose(Z[3], Z[7], rtol=0, atol=1e-12)

    def test_number_of_threads_makes_no_difference(self, X):
        one = self.make(n_jobs=1).fit(X).transform(X)
        assert_equal_up_to_rounding(self.make(n_jobs=3).fit(X).transform(X), one)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda X: X[:, :3], "X has 3 features, but .* is expecting 4 features"),
            (lambda X: X[:0], "0 sample"),
            (lambda X: X[0], "Expected 2D array, got 1D array"),
            (lambda X: np.where(X == 0, np.nan, X), "Input X contains NaN"),
            (lambda X: np.where(X == 0, np.inf, X), "Input X contains infinity"),
            (lambda X: X.astype(complex), "Complex data not supported"),
        ],
    )
    def test_bad_data_are_refused_in_one_sentence(self, feature_map, X, change, message):
        feature_map.fit(X)
        for method in (feature_map.transform, feature_map.design):
            with pytest.raises(ValueError, match=message):
                method(change(X))

    def test_must_be_fitted_first(self, feature_map, X):
        for method in (feature_map.transform, feature_map.design):
            with pytest.raises(NotFittedError):
                method(X)
        with pytest.raises(NotFittedError):
            feature_map.transform_block(X, [0])

    # Design.

    def test_design_is_transform(self, feature_map, X, X_csr, dtype):
        X, X_csr = X.astype(dtype), X_csr.astype(dtype)
        Z = dense(feature_map.fit(X).transform(X))
        for data in (X, X_csr):
            design = feature_map.design(data)
            assert design.shape == Z.shape
            assert_equal_up_to_rounding(design.toarray(), Z)
            assert_equal_up_to_rounding(design.block([1, 0]), Z[:, [1, 0]])

    def test_fit_design_is_fit_then_design(self, X, X_csr):
        for data in (X, X_csr):
            together, apart = self.make(), self.make().fit(data)
            design = together.fit_design(data)
            assert_equal_up_to_rounding(design.toarray(), apart.design(data).toarray())
            assert_equal_up_to_rounding(together.transform(X[:9]), apart.transform(X[:9]))

    def test_rows_prepared_as_they_are_read_are_rows_prepared_together(
        self, X, X_csr, dtype, monkeypatch
    ):
        for data in (X.astype(dtype), X_csr.astype(dtype)):
            together = self.make()
            whole = together.fit_design(0.5 * data)
            with monkeypatch.context() as patch:
                patch.setattr("mercer._runtime.rows._LARGE", 0)
                patch.setattr("mercer._runtime.arrays.CHUNK_BYTES", 2000)
                by_rows = self.make()
                design = by_rows.fit_design(data, lambda rows: 0.5 * rows)
                again = by_rows.design(PreparedRows(data, lambda rows: 0.5 * rows))
            assert design.dtype == whole.dtype
            assert_equal_up_to_rounding(design.toarray(), whole.toarray())
            assert_equal_up_to_rounding(again.toarray(), whole.toarray())
            assert_equal_up_to_rounding(by_rows.transform(data), together.transform(data))

    def test_fit_transform_is_fit_then_transform(self, X):
        apart = self.make().fit(X).transform(X)
        assert_equal_up_to_rounding(self.make().fit_transform(X), apart)

    @pytest.mark.rounding
    def test_design_that_would_not_fit_regenerates_its_columns(self, feature_map, X, monkeypatch):
        Z = dense(feature_map.fit(X).transform(X))
        monkeypatch.setattr(mercer.maps.base, "available_memory", lambda: Z.nbytes)
        design = feature_map.design(X)
        assert isinstance(design, Lazy) == self.may_be_lazy
        weights = np.linspace(-1, 1, Z.shape[1])
        np.testing.assert_allclose(design.matvec(weights), Z @ weights, atol=1e-11)
        np.testing.assert_allclose(design.rmatvec(Z[:, 0]), Z.T @ Z[:, 0], atol=1e-11)

    def test_folded_coefficients_give_the_same_responses(self, feature_map, X, X_csr, dtype):
        D = feature_map.fit(X).n_features_out_
        for shape in ((D,), (D, 3)):
            weights = np.random.default_rng(0).normal(size=shape).astype(dtype)
            folded, coef = feature_map.folded(weights)
            assert coef.shape == (folded.n_features_out_, *shape[1:])
            assert coef.dtype in (dtype, np.float64)
            for data in (X, X_csr):
                expected = feature_map.design(data.astype(dtype)).matvec(weights)
                actual = folded.design(data.astype(coef.dtype)).matvec(coef)
                tolerance = 1e-10 if dtype == np.float64 else 1e-5 * np.abs(weights).sum()
                np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance)

    def test_bytes_per_row_cover_the_features_of_a_row(self, feature_map, X, dtype):
        design = feature_map.fit(X).design(X[:20].astype(dtype))
        assert feature_map.bytes_per_row(dtype) >= design.nbytes / 40
        assert feature_map.bytes_per_row(np.float64) < 10_000

    # Randomness and state.

    @pytest.mark.rounding
    @pytest.mark.parametrize("gamma", [0.7, [0.1, 0.2, 0.3, 0.4], "median"])
    def test_a_copy_at_another_scale_is_the_fresh_map_at_that_scale(self, feature_map, X, gamma):
        if not self.has_gamma:
            with pytest.raises(ValueError, match=r"gamma must be left out for .* has no scale"):
                feature_map.with_gamma(gamma)
            return
        kernel = feature_map.get_params().get("kernel")
        fresh = feature_map.get_params()
        if isinstance(kernel, Stationary):
            fresh |= {"kernel": kernel.with_gamma(gamma), "gamma": "scale"}
        else:
            fresh |= {"gamma": gamma}
        expected = dense(type(feature_map)(**fresh).fit_transform(X))
        for original in (feature_map, self.make().fit(X)):
            copy = original.with_gamma(gamma)
            with pytest.raises(NotFittedError):
                copy.transform(X)
            np.testing.assert_array_equal(dense(copy.fit_transform(X)), expected)

    @pytest.mark.rounding
    def test_copies_share_their_random_numbers_whatever_the_seed(self, X):
        if not (self.has_gamma and self.is_random):
            return
        for seed in (None, 3, np.random.RandomState(0), np.random.default_rng(0)):
            map_ = self.make().set_params(random_state=seed)
            one, other = map_.with_gamma(0.5).fit(X), map_.with_gamma(0.9).fit(X)
            assert one.key_ == other.key_ == map_.fit(X).key_ == map_.with_gamma(2.0).fit(X).key_
            again = pickle.loads(pickle.dumps(map_.with_gamma(0.5)))
            np.testing.assert_array_equal(dense(again.fit_transform(X)), dense(one.transform(X)))
            assert map_.set_params(random_state=99).fit(X).key_ != one.key_
        fitted = self.make().set_params(random_state=None).fit(X)
        assert fitted.with_gamma(0.5).fit(X).key_ == fitted.key_

    def test_a_scale_that_makes_no_sense_is_refused(self, feature_map):
        with pytest.raises(ValueError, match=r"gamma must be positive and finite; got 0\.0"):
            feature_map.with_gamma(0.0)

    def test_seed_fixes_the_map(self, X):
        assert_equal_up_to_rounding(self.make().fit_transform(X), self.make().fit_transform(X))

    def test_another_seed_gives_another_map(self, X):
        if self.is_random:
            other = dense(self.make().set_params(random_state=99).fit_transform(X))
            mine = dense(self.make().fit_transform(X))
            assert mine.shape != other.shape or abs(mine - other).max() > 0.01

    def test_refit_forgets_the_first_fit(self, feature_map, X):
        fresh = self.make().fit(X[:20, :2]).transform(X[:, :2])
        assert_equal_up_to_rounding(feature_map.fit(X).fit(X[:20, :2]).transform(X[:, :2]), fresh)

    @pytest.mark.rounding
    def test_pickled_map_gives_the_same_features(self, feature_map, X):
        Z = dense(feature_map.fit(X).transform(X))
        again = pickle.loads(pickle.dumps(feature_map))
        np.testing.assert_array_equal(dense(again.transform(X)), Z)
        np.testing.assert_array_equal(
            again.transform_block(X, [0, 1]), feature_map.transform_block(X, [0, 1])
        )

    def test_pickle_of_an_unfitted_map_can_be_fitted(self, feature_map, X):
        again = pickle.loads(pickle.dumps(feature_map))
        assert_equal_up_to_rounding(again.fit_transform(X), feature_map.fit_transform(X))

    def test_clone_is_unfitted_with_equal_settings(self, feature_map, X):
        copy = clone(feature_map.fit(X))
        assert repr(copy) == repr(feature_map)
        with pytest.raises(NotFittedError):
            copy.transform(X)

    def test_fit_does_not_change_the_settings(self, feature_map, X):
        before = feature_map.get_params()
        feature_map.fit(X)
        after = feature_map.get_params()
        assert all(after[name] is value for name, value in before.items())

    # Names.

    def test_feature_names_are_as_many_as_columns(self, feature_map, X):
        names = feature_map.fit(X).get_feature_names_out()
        prefix = "x" if self.names_are_inputs else type(feature_map).__name__.lower()
        assert list(names) == [f"{prefix}{j}" for j in range(feature_map.n_features_out_)]

    def test_data_frames_are_data(self, feature_map, X):
        frame = pd.DataFrame(X, columns=list("abcd"))
        Z = feature_map.fit(frame).transform(frame)
        assert_equal_up_to_rounding(Z, self.make().fit_transform(X))
        assert list(feature_map.feature_names_in_) == list("abcd")
        names = feature_map.get_feature_names_out()
        assert not self.names_are_inputs or list(names) == list("abcd")
        if not sparse.issparse(Z):
            output = feature_map.set_output(transform="pandas").transform(frame)
            assert list(output.columns) == list(names)
            assert list(output.index) == list(frame.index)
            return
        for ask in (
            feature_map.transform,
            self.make().set_output(transform="pandas").fit_transform,
        ):
            feature_map.set_output(transform="pandas")
            with pytest.raises(ValueError, match=r"sparse here: say set_output\(.*'default'\)"):
                ask(frame)
        feature_map.set_output(transform="default")
        table = pd.DataFrame.sparse.from_spmatrix(feature_map.transform(frame))
        np.testing.assert_array_equal(table.to_numpy(), Z.toarray())


class TestIdentityMap(MapLaws):
    is_random = False
    has_gamma = False
    names_are_inputs = True
    may_be_lazy = False

    def make(self, **settings):
        return IdentityMap(**settings)

    def test_features_are_the_data(self, X, X_csr):
        np.testing.assert_array_equal(IdentityMap().fit_transform(X), X)
        assert sparse.issparse(IdentityMap().fit_transform(X_csr))
        assert isinstance(IdentityMap().fit_design(X), Dense)
        assert isinstance(IdentityMap().fit_design(X_csr), Sparse)


class TestRandomBinning(MapLaws):
    may_be_lazy = False

    def make(self, **settings):
        return RandomBinning(gamma=0.3, n_components=6, random_state=1, **settings)


class TestHashedBinning(MapLaws):
    may_be_lazy = False

    def make(self, **settings):
        return RandomBinning(gamma=0.3, n_components=6, bins=8, random_state=1, **settings)


def checks_that_make_no_sense(estimator):
    """Some checks set n_components to 1, which pairs of columns rightly refuse."""
    if getattr(estimator, "form", None) != "pair":
        return {}
    names = (
        "dont_overwrite_parameters",
        "fit2d_1feature",
        "fit2d_1sample",
        "fit2d_predict1d",
        "methods_sample_order_invariance",
        "methods_subset_invariance",
    )
    return {f"check_{name}": "n_components=1 is odd" for name in names}


@parametrize_with_settings(
    [
        IdentityMap(),
        RandomFourier(n_components=6),
        RandomBinning(n_components=6),
        Nystroem(),
    ],
    [
        RandomFourier("laplacian", n_components=6, form="pair"),
        RandomBinning(n_components=6, bins=16),
    ],
    expected_failed_checks=checks_that_make_no_sense,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("name", ["maps", "maps.base"])
def test_examples_run(name, check_examples):
    check_examples(mercer.maps if name == "maps" else mercer.maps.base)


def test_a_map_says_three_things():
    class Squares(FeatureMap):
        """A map in ten lines: each input and its square."""

        n_jobs = None

        def _fit(self, X):
            self.n_features_out_ = 2 * X.shape[1]

        def _transform(self, X):
            return np.hstack([X, X**2])

        def _block(self, X, columns):
            return self._transform(X)[:, columns]

    X = np.array([[1.0, 2.0]])
    squares = Squares()
    assert squares.fit_design(X).toarray().tolist() == [[1.0, 2.0, 1.0, 4.0]]
    assert squares.transform_block(X, [3]).tolist() == [[4.0]]
