"""Maps by name, and what may be said beside a name or a map."""

import numpy as np
import pytest

from mercer import KernelRegressor, LocalKernelRegressor, maps
from mercer.kernels import Callable, Cauchy, Gaussian, Laplacian
from mercer.maps import (
    ExactKernel,
    Fastfood,
    HashedNGrams,
    IdentityMap,
    LocalKernel,
    Nystroem,
    RandomBinning,
    RandomFourier,
    RandomPerceptron,
    SubspaceEmbedding,
)


def polynomial(X, Y):
    return np.asarray((1.0 + X @ Y.T) ** 2)


class TestGet:
    def test_names(self):
        named = {
            "binning": RandomBinning,
            "fourier": RandomFourier,
            "fastfood": Fastfood,
            "nystroem": Nystroem,
            "exact": ExactKernel,
            "linear": IdentityMap,
            "perceptron": RandomPerceptron,
            "ngrams": HashedNGrams,
            "tefm": SubspaceEmbedding,
        }
        assert named == maps._NAMES
        for name, kind in named.items():
            assert type(maps.get(name)) is kind
            assert repr(maps.get(name)) == repr(kind())

    def test_settings_beside_a_name_are_the_maps(self):
        gamma = np.array([1.0, 2.0])
        found = maps.get("fourier", "cauchy", gamma, 12, random_state=3, n_jobs=2)
        settings = found.get_params()
        assert tuple(settings.pop("gamma")) == (1.0, 2.0)
        assert settings == {
            "kernel": "cauchy",
            "n_components": 12,
            "form": "phase",
            "sampling": "iid",
            "scale": True,
            "random_state": 3,
            "n_jobs": 2,
        }

    def test_a_map_is_copied(self):
        mine = RandomFourier(random_state=1)
        found = maps.get(mine, n_jobs=2)
        assert found is not mine
        assert mine.n_jobs is None
        assert found.n_jobs == 2

    def test_seed_and_threads_fill_in_and_never_contradict(self):
        found = maps.get(RandomFourier(random_state=1, n_jobs=1), random_state=1)
        assert (found.random_state, found.n_jobs) == (1, 1)
        assert maps.get(RandomFourier(), random_state=2).random_state == 2
        shared = np.random.RandomState(0)
        maps.get(RandomFourier(random_state=shared), random_state=shared)
        for name in ("random_state", "n_jobs"):
            with pytest.raises(ValueError, match=f"{name} is given twice and differs: 2"):
                maps.get(RandomFourier(**{name: 1}), **{name: 2})

    @pytest.mark.parametrize(
        ("feature_map", "settings"),
        [
            (RandomFourier("laplacian"), {"kernel": "laplacian"}),
            (RandomFourier("laplacian", gamma=2.0), {"kernel": Laplacian(2.0)}),
            (RandomFourier("laplacian", gamma=2.0), {"kernel": Laplacian()}),
            (RandomFourier("laplacian", gamma=2.0), {"kernel": "laplacian", "gamma": 2}),
            (RandomFourier(Gaussian([1, 2])), {"gamma": np.array([1.0, 2.0])}),
            (RandomFourier(n_components=7), {"n_components": 7}),
            (Nystroem(polynomial), {"kernel": polynomial}),
        ],
    )
    def test_saying_the_same_twice_is_fine(self, feature_map, settings):
        assert repr(maps.get(feature_map, **settings)) == repr(feature_map)

    @pytest.mark.parametrize(
        ("feature_map", "settings", "message"),
        [
            ("rff", {}, "feature_map must be one of 'binning', 'fourier', .*; got 'rff'"),
            (None, {}, "feature_map must be one of .*; got None"),
            (RandomFourier, {}, "feature_map must be one of .*; got <class"),
            ("linear", {"kernel": "gaussian"}, "kernel must be left out for .*'linear'; got 'gaus"),
            ("linear", {"gamma": 2.0}, "gamma must be left out for feature_map='linear'; got 2.0"),
            ("linear", {"n_components": 5}, "n_components must be left out for .*; got 5"),
            (IdentityMap(), {"gamma": 2.0}, r"gamma must be left out .*IdentityMap\(\); got 2.0"),
            (RandomFourier(), {"kernel": "laplacian"}, "kernel is given twice and differs: 'lap"),
            (RandomFourier("cauchy"), {"kernel": Cauchy(isotropic=True)}, "kernel is given twice"),
            (RandomFourier(gamma=1), {"kernel": Gaussian(2.0)}, "kernel is given twice"),
            (RandomFourier(gamma=1), {"gamma": 2.0}, "gamma is given twice and differs: 2.0 .* 1;"),
            (RandomFourier(), {"gamma": "median"}, "gamma is given twice and differs: 'median'"),
            (RandomFourier(Gaussian(1.0)), {"gamma": 2.0}, "gamma is given twice and differs"),
            (RandomFourier(), {"n_components": 5}, "n_components is given twice and differs: 5"),
            (Nystroem(polynomial), {"kernel": Callable(np.dot)}, "kernel is given twice"),
            ("fourier", {"gamma": 0}, "gamma must be positive and finite; got 0"),
        ],
    )
    def test_bad_or_conflicting_requests_are_refused(self, feature_map, settings, message):
        with pytest.raises(ValueError, match=message):
            maps.get(feature_map, **settings)


@pytest.mark.parametrize("number", [32, np.int64(32), 32.0])
def test_a_number_in_the_place_of_a_kernel_is_told_where_it_belongs(number):
    X = np.eye(4)
    wrong = r"^kernel must be a name, a Kernel or a function of \(X, Y\); got [^:]*"
    maps_ = (RandomBinning, RandomFourier, Fastfood, Nystroem)
    cases = dict.fromkeys(maps_, wrong + r": write n_components=32\.$")
    cases[LocalKernel] = wrong + r": write leaf_size=32\.$"
    cases[ExactKernel] = wrong + r"\.$"
    cases[SubspaceEmbedding] = r"^base must be a name or .*; got [^:]*: write n_components=32\.$"
    for make, message in cases.items():
        with pytest.raises(ValueError, match=message):
            make(number).fit(X)
    for model, message in (
        (KernelRegressor(number), r"^feature_map must be .*: write a map's n_components=32\.$"),
        (KernelRegressor("fourier", kernel=number), cases[RandomFourier]),
        (LocalKernelRegressor(number), cases[LocalKernel]),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit(X, X[:, 0])


@pytest.mark.parametrize("number", [10**400, -3, 0.5, np.inf, np.nan])
def test_a_number_that_belongs_nowhere_is_refused_alone(number):
    for make in (RandomFourier, SubspaceEmbedding, LocalKernel):
        with pytest.raises(ValueError, match=r"^(kernel|base) must be a name.*; got [^:]*\.$"):
            make(number).fit(np.eye(4))
    with pytest.raises(ValueError, match=r"^feature_map must be .*; got [^:]*\.$"):
        KernelRegressor(number).fit(np.eye(4), np.ones(4))
