"""Feature maps: explicit features whose inner products approximate a kernel."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone

from mercer import kernels
from mercer._runtime.messages import shown
from mercer._runtime.random import RandomStateLike
from mercer._runtime.validation import scale_of_distance
from mercer.kernels.base import Gamma
from mercer.maps.base import FeatureMap
from mercer.maps.binning import RandomBinning
from mercer.maps.embedding import SubspaceEmbedding
from mercer.maps.ensembles import RandomPerceptron
from mercer.maps.exact import ExactKernel
from mercer.maps.fitted import as_features
from mercer.maps.fourier import RandomFourier
from mercer.maps.hadamard import Fastfood
from mercer.maps.halfspaces import Halfspaces
from mercer.maps.identity import IdentityMap
from mercer.maps.local import LocalKernel
from mercer.maps.members import Members
from mercer.maps.nystroem import Nystroem
from mercer.maps.stated import is_number, meant_for
from mercer.maps.text import HashedNGrams

__all__ = [
    "ExactKernel",
    "Fastfood",
    "FeatureMap",
    "Halfspaces",
    "HashedNGrams",
    "IdentityMap",
    "LocalKernel",
    "Members",
    "Nystroem",
    "RandomBinning",
    "RandomFourier",
    "RandomPerceptron",
    "SubspaceEmbedding",
    "as_features",
    "get",
    "takes_text",
]

_NAMES: dict[str, type[FeatureMap]] = {
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


def get(
    feature_map: Any,
    kernel: Any = None,
    gamma: Gamma = "scale",
    n_components: int | None = None,
    random_state: RandomStateLike = None,
    n_jobs: int | None = None,
) -> FeatureMap:
    """Return a new, unfitted map from a name or a map, with the settings given.

    Parameters
    ----------
    feature_map : str or FeatureMap
        "binning", "fourier", "fastfood", "nystroem", "exact", "linear", "perceptron",
        "ngrams" or "tefm": the map of that name with its defaults. A map object is copied and stays
        unchanged.
    kernel : str, Kernel, callable or None, default=None
        Kernel of the map; None keeps the one of the map.
    gamma : float, array of shape (d,), "scale" or "median", default="scale"
        Factor of the distance in the kernel; "scale" keeps the one of the map.
    n_components : int or None, default=None
        Number of grids, frequencies or landmarks; None keeps the number of the map.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the map; None keeps the one of the map.
    n_jobs : int or None, default=None
        Number of threads; None keeps the number of the map.

    Raises
    ------
    ValueError
        If the name is unknown, a setting does not apply to the map, or it contradicts the map's.

    Examples
    --------
    >>> from mercer import maps
    >>> maps.get("fourier", kernel="laplacian", n_components=64)
    RandomFourier(kernel='laplacian', n_components=64)
    """
    gamma = scale_of_distance(gamma)
    settings = {
        "kernel": kernel,
        "gamma": None if gamma == "scale" else gamma,
        "n_components": n_components,
    }
    given = {name: value for name, value in settings.items() if value is not None}
    if isinstance(feature_map, FeatureMap):
        result = clone(feature_map)
        known = result.get_params(deep=False)
        _check_applicable(given, known, feature_map)
        for name, value in given.items():
            _check_agreement(name, value, feature_map)
    elif isinstance(feature_map, str) and feature_map in _NAMES:
        result = _NAMES[feature_map]()
        known = result.get_params(deep=False)
        _check_applicable(given, known, feature_map)
        result.set_params(**given)
    else:
        # Not every estimator has n_components, but every random map has.
        told = meant_for("a map's n_components", feature_map) if is_number(feature_map) else ""
        raise ValueError(
            f"feature_map must be one of {', '.join(map(repr, _NAMES))} or a FeatureMap; "
            f"got {shown(feature_map)}{told}."
        )
    for name, value in (("random_state", random_state), ("n_jobs", n_jobs)):
        if name not in known or value is None:
            continue
        if known[name] is None:
            result.set_params(**{name: value})
        elif value is not getattr(feature_map, name) and value != known[name]:
            raise ValueError(_twice(name, value, known[name]))
    return result


def _check_applicable(given: dict[str, Any], known: dict[str, Any], feature_map: Any) -> None:
    for name, value in given.items():
        if name not in known:
            stated = " ".join(repr(feature_map).split())  # that of a map may have several lines
            raise ValueError(f"{name} must be left out for feature_map={stated}; got {value!r}.")


def _check_agreement(name: str, value: Any, feature_map: FeatureMap) -> None:
    """Refuse a setting that the map given beside it contradicts."""
    settings, kernel = feature_map.get_params(deep=False), feature_map.stated_kernel()
    if name == "kernel":
        other = kernels.get(value)
        if other.gamma == "scale":  # the default, which states no scale
            other = kernels.get(other, "scale" if kernel.gamma is None else kernel.gamma)
        agree = other == kernel
    elif name == "gamma":
        agree = kernel is not None and value == kernel.gamma
    else:
        agree = value == settings[name]
    if not agree:
        raise ValueError(_twice(name, value, settings[name]))


def _twice(name: str, value: Any, setting: Any) -> str:
    return (
        f"{name} is given twice and differs: {value!r} beside a feature_map with {setting!r}; "
        "say it once."
    )


def takes_text(feature_map: Any, kernel: Any = None) -> bool:
    """Whether a map with a kernel takes sequences of texts instead of rows of numbers.

    Parameters
    ----------
    feature_map : str or FeatureMap
    kernel : str, Kernel, callable or None, default=None
        Kernel of a map given by name; None takes the default kernel of the map.

    Returns
    -------
    bool
        Also False for arguments that :func:`get` refuses.

    Examples
    --------
    >>> from mercer import maps
    >>> maps.takes_text("ngrams"), maps.takes_text("nystroem"), maps.takes_text("nystroem", "ngram")
    (True, False, True)
    """
    is_new = isinstance(feature_map, FeatureMap) and "kernel_" not in vars(feature_map)
    try:
        return (feature_map if is_new and kernel is None else get(feature_map, kernel)).takes_text
    except (TypeError, ValueError):
        return False
