"""Entries of docstrings that several maps share, written once."""

from __future__ import annotations

from mercer._runtime.documentation import documented, entries

__all__ = ["COSINES", "NESTED", "SHARED", "SIGNS", "documented"]

SHARED = entries(
    """
    gamma : float, array of shape (d,), "scale" or "median", default="scale"
        Scale of the kernel, > 0; an array holds one scale per input.
    n_components : int, default=1000
        Number of columns D, >= 1.
    random_state : int, RandomState, Generator or None, default=None
        An integer makes the map reproducible.
    n_jobs : int or None, default=None
        Threads; None means all.
    n_features_out_ : int
        D.
    kernel_ : Kernel
        The kernel with its ``gamma`` as a number.
    ValueError, TypeError
        By ``fit``, if a parameter makes no sense.
    """
)

COSINES = SHARED | entries(
    """
    n_components : int, default=1000
        Number of columns D; even for pairs.
    form : {"phase", "pair"}, default="phase"
        A column per frequency, or two.
    scale : bool, default=True
        False leaves out 1/sqrt(D): columns are then the raw basis, ``sqrt(2) cos(...)``, which does
        not depend on D.
    key_ : int
        With it and the hyper-parameters every frequency is fixed; pickles hold it instead of the
        frequencies.
    """
)

SIGNS = SHARED | entries(
    """
    scale : bool, default=True
        False leaves the entries at +1 and -1; columns then do not depend on D.
    n_jobs : int or None, default=None
        Threads of its design; None means all. Linear algebra runs on the threads of its library.
    low_, high_ : ndarray of shape (d,)
        Range of every input in the training data.
    Lin and Li, Support vector machinery for infinite ensemble learning, JMLR 2008.
    """
)

# Of maps that reduce the features of another one.
NESTED = SHARED | entries(
    """
    base : str or FeatureMap, default="fourier"
        Where the features come from: a name as for :func:`mercer.maps.get`, or a map. Maps given by
        name that know pairs of cosine and sine use those.
    n_components : int, default=256
        Number l of columns; a subspace has at most as many as the base.
    kernel : str, Kernel, callable or None, default=None
        Kernel of a base given by name; None takes its own.
    gamma : float, array of shape (d,), "scale" or "median", default="scale"
        Scale of that kernel.
    n_base : int or None, default=None
        ``n_components`` of a base given by name; None means ``4 * n_components``.
    random_state : int, RandomState, Generator or None, default=None
        An integer makes the map reproducible. It also serves a base without one of its own.
    base_ : FeatureMap
        The base, fitted.
    n_features_out_ : int
        l.
    kernel_ : Kernel
        That of the base, if it has one.
    """
)
