"""Laws of endless sequences of random functions and of excerpts of them."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from mercer import maps
from mercer.designs import select, side_by_side
from mercer.maps import (
    Fastfood,
    Members,
    Nystroem,
    RandomBinning,
    RandomFourier,
    RandomPerceptron,
    members,
)
from mercer.maps.members import feature_sequence

pytestmark = pytest.mark.rounding

COLUMNS = [
    RandomFourier(n_components=6, scale=False, random_state=3),
    RandomFourier(n_components=6, form="pair", scale=False, random_state=3),
    RandomFourier(n_components=2, sampling="orthogonal", scale=False, random_state=3),
    RandomFourier(n_components=6, sampling="qmc", scale=False, random_state=3),
    Fastfood(n_components=6, scale=False, random_state=3),
    RandomPerceptron(n_components=6, scale=False, random_state=3),
]
GRIDS = [
    RandomBinning(n_components=6, scale=False, random_state=3),
]


def full(Z):
    return Z if isinstance(Z, np.ndarray) else Z.toarray()


@pytest.fixture
def X(rng, dtype):
    return rng.normal(size=(50, 4)).astype(dtype)


@pytest.fixture(params=COLUMNS + GRIDS, ids=repr)
def fitted(request, X):
    return clone(request.param).fit(X)


@pytest.fixture(params=COLUMNS, ids=repr)
def columns(request, X):
    return clone(request.param).fit(X)


def test_a_stream_begins_with_the_features_of_the_map(fitted, X):
    part, design = fitted.stream(X, 0, fitted.n_components)
    np.testing.assert_array_equal(design.toarray(), full(fitted.transform(X)))
    np.testing.assert_array_equal(full(part.transform(X)), design.toarray())
    assert design.dtype == X.dtype


def test_features_do_not_depend_on_how_many_are_asked_for(fitted, X):
    whole = fitted.stream(X, 4, 12)[1].toarray()
    parts = [fitted.stream(X, first, 4)[1].toarray() for first in (4, 8, 12)]
    np.testing.assert_allclose(np.hstack(parts), whole, atol=1e-6)


def test_features_beyond_a_map_are_those_of_a_larger_one(columns, X):
    larger = clone(columns).set_params(n_components=20).fit(X)
    beyond = columns.stream(X, 6, 14)[1].toarray()
    np.testing.assert_allclose(beyond, larger.transform(X)[:, 6:], atol=1e-6)


def test_grids_beyond_a_map_are_those_of_a_larger_one(X):
    small = clone(GRIDS[0]).fit(X)
    larger = clone(small).set_params(n_components=9).fit(X)
    beyond = small.stream(X, 6, 3)[1].toarray()
    np.testing.assert_array_equal(beyond, larger.transform(X).toarray()[:, -beyond.shape[1] :])


def test_excerpts_have_the_columns_chosen_and_those_of_others_after_them(fitted, X, rng):
    (a, of_a), (b, of_b) = (fitted.stream(X, first, 6) for first in (0, 6))
    from_a, from_b = (np.sort(rng.permutation(d.shape[1])[:4]) for d in (of_a, of_b))
    both = a.excerpt(from_a).followed_by(b.excerpt(from_b))
    design = side_by_side([select(of_a, from_a), select(of_b, from_b)])
    np.testing.assert_array_equal(both.design(X).toarray(), design.toarray())
    assert both.n_features_out_ == 8
    again = both.excerpt([0, 3, 4, 7])
    np.testing.assert_array_equal(again.design(X).toarray(), design.toarray()[:, [0, 3, 4, 7]])
    np.testing.assert_array_equal(again.transform_block(X, [2]), design.toarray()[:, [4]])


def test_excerpts_on_new_rows_are_those_of_the_whole(fitted, X, rng):
    new = rng.normal(size=(30, 4)).astype(X.dtype)
    part, design = fitted.stream(X, 2, 5)
    chosen = np.sort(rng.permutation(design.shape[1])[:3])
    whole = full(part.transform_block(new, np.arange(design.shape[1])))
    np.testing.assert_allclose(
        full(part.excerpt(chosen).transform(new)), whole[:, chosen], atol=1e-6
    )


def test_an_excerpt_of_nothing_has_no_columns(fitted, X):
    nothing = fitted.stream(X, 0, 2)[0].excerpt([])
    assert nothing.design(X).shape == (50, 0)
    assert not nothing.design(X).matvec(np.empty(0)).any()


def test_streams_go_on_from_excerpts(fitted, X):
    excerpt = fitted.stream(X, 0, 3)[0].excerpt([1])
    ours, theirs = (m.stream(X, 7, 2)[1].toarray() for m in (excerpt, fitted))
    np.testing.assert_array_equal(ours, theirs)


def test_addresses_tell_columns_apart(fitted, X):
    part, design = fitted.stream(X, 0, 12)
    addresses = part.addresses()
    assert len(np.unique(addresses, axis=0)) == design.shape[1]
    later, of_later = fitted.stream(X, 6, 6)
    np.testing.assert_array_equal(addresses[-of_later.shape[1] :], later.addresses())


def test_pickled_excerpts_are_small_and_the_same(fitted, X):
    far = fitted.stream(X, 10**6, 5)[0].excerpt([0, 2])
    content = pickle.dumps(far)
    assert len(content) < 2500
    again = pickle.loads(content)
    np.testing.assert_array_equal(full(again.transform(X)), full(far.transform(X)))


def test_a_tidied_excerpt_has_the_same_columns_in_another_order(fitted, X):
    part, design = fitted.stream(X, 0, 3)
    columns = np.arange(design.shape[1])
    mixed = part.excerpt(columns[1::2]).followed_by(part.excerpt(columns[::2]))
    tidy, order = mixed.tidied()
    np.testing.assert_array_equal(tidy.addresses(), mixed.addresses()[order])
    np.testing.assert_array_equal(full(tidy.transform(X)), mixed.design(X).toarray()[:, order])
    if isinstance(fitted, RandomBinning):
        assert (mixed.n_components, tidy.n_components) == (6, 3)


def test_members_can_be_fitted_by_themselves(columns, X):
    ours = Members(clone(columns), [1, 10**6]).fit(X)
    np.testing.assert_allclose(ours.transform(X)[:, 0], columns.transform(X)[:, 1], atol=1e-6)
    assert ours.get_feature_names_out().tolist() == ["members0", "members1"]


def test_excerpts_of_bins_do_not_warn_of_bins_they_left_out(X, recwarn):
    part, _ = clone(GRIDS[0]).fit(X).stream(X, 0, 5)
    part.excerpt([0]).transform(X)
    assert not recwarn.list


@pytest.mark.parametrize(
    "feature_map",
    [
        RandomFourier(n_components=4),
        RandomBinning(n_components=4),
        RandomBinning(n_components=4, bins=64, scale=False),
        Nystroem(n_components=4),
        maps.IdentityMap(),
    ],
    ids=repr,
)
def test_maps_without_an_endless_sequence_say_so(feature_map, X):
    fitted = feature_map.fit(X)
    with pytest.raises(ValueError, match="feature_map must be an endless sequence"):
        feature_sequence(fitted).stream(X, 0, 2)
    if isinstance(fitted, RandomFourier):
        for ask in (fitted.excerpt, fitted.followed_by):
            with pytest.raises(ValueError, match="feature_map must come from stream"):
                ask([0])


@pytest.mark.parametrize("feature_map", [Nystroem(), RandomFourier()], ids=repr)
def test_members_of_other_maps_are_refused(feature_map, X):
    with pytest.raises(ValueError, match="feature_map must be an endless sequence"):
        Members(feature_map, [0]).fit(X)


def test_places_before_the_first_are_refused(X):
    with pytest.raises(ValueError, match="places must be at least 0"):
        Members(clone(COLUMNS[0]), [-1]).fit(X)


@parametrize_with_checks(
    [Members(RandomFourier(n_components=2, scale=False, random_state=0), [4, 1])]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_examples_run(check_examples):
    check_examples(members)
