"""Entries of docstrings that several maps share, written once."""

from __future__ import annotations

from mercer._runtime.documentation import documented, entries

__all__ = ["COSINES", "NESTED", "SHARED", "SIGNS", "documented"]

SHARED = entries(
    """
    gamma : float, array of shape (d,), "scale" or "median", default="scale"
        Factor of the distance in the kernel, > 0; larger values make narrower kernels. "scale" and
        "median" choose it from the spread of the data at ``fit``. An array has one factor per
        input.
    n_components : int, default=1000
        Number of columns D, >= 1.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the random numbers; an int makes the map reproducible.
    n_jobs : int or None, default=None
        Number of threads; None means all.
    n_features_out_ : int
        Number of columns D.
    kernel_ : Kernel
        Fitted kernel, with its ``gamma`` as a number.
    ValueError, TypeError
        At ``fit``, if a parameter is invalid.
    """
)

COSINES = SHARED | entries(
    """
    n_components : int, default=1000
        Number of columns D, >= 1; even if ``form="pair"``.
    form : {"phase", "pair"}, default="phase"
        Columns per frequency: "phase" has one, a cosine with a random phase; "pair" has two, cosine
        and sine.
    scale : bool, default=True
        Whether columns have the factor 1/sqrt(D). Without it a column is ``sqrt(2) cos(...)`` and
        does not depend on D.
    key_ : int
        Key of the random numbers: it determines all frequencies, and pickles store it instead of
        them.
    """
)

SIGNS = SHARED | entries(
    """
    scale : bool, default=True
        Whether entries have the factor 1/sqrt(D). Without it they are +1 and -1, and columns do not
        depend on D.
    n_jobs : int or None, default=None
        Number of threads of the design; None means all. Linear algebra uses the threads of its own
        library.
    Lin and Li, Support vector machinery for infinite ensemble learning, JMLR 2008.
    """
)

# Entries of maps that reduce the features of another map, the base.
NESTED = SHARED | entries(
    """
    base : str or FeatureMap, default="fourier"
        Map whose features are reduced: a name of :func:`mercer.maps.get`, or a map. A map of
        cosines given by name uses ``form="pair"``.
    n_components : int, default=256
        Number l of columns; a subspace has at most as many as the base.
    kernel : str, Kernel, callable or None, default=None
        Kernel of a base given by name; None takes the default kernel of the base.
    gamma : float, array of shape (d,), "scale" or "median", default="scale"
        Factor of the distance in the kernel of a base given by name, > 0.
    n_base : int or None, default=None
        ``n_components`` of a base given by name; None means ``4 * n_components``.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the random numbers, also of a base without its own seed; an int makes the map
        reproducible.
    base_ : FeatureMap
        Fitted base.
    n_features_out_ : int
        Number of columns l.
    kernel_ : Kernel
        Kernel of the base, if it has one.
    """
)
