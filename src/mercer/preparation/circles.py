"""Columns whose ends meet as points of circles and spheres, whose distances kernels know."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_array

from mercer._runtime.validation import positive_number

__all__ = ["on_circle", "on_sphere"]


def on_circle(X: ArrayLike, period: float) -> NDArray[np.float64]:
    """Points of a circle for columns that begin anew after a period, such as hours or months.

    A kernel of their Euclidean distance is a function of the difference modulo the period; a
    Gaussian one is the periodic kernel of MacKay.

    Parameters
    ----------
    X : array of shape (n,) or (n, d)
        Numbers; NaN gives NaN.
    period : float
        Length of a turn in units of X, > 0.

    Returns
    -------
    ndarray of shape (n, 2) or (n, 2 * d)
        Sines of all columns, then cosines. An estimator must give both of a column one scale, by
        ``scale=[[0, 1]]``: with scales of their own, steps of an hour range from 0.40 to 0.75 where
        rows of some hours are rare.

    Raises
    ------
    ValueError, TypeError
        If ``period`` is not above 0, or X holds infinity.

    References
    ----------
    MacKay (1998), Introduction to Gaussian processes.

    Examples
    --------
    Eleven at night is as far from midnight as one in the morning:

    >>> from mercer.preparation import on_circle
    >>> from scipy.spatial.distance import cdist
    >>> cdist(on_circle([0], 24), on_circle([23, 1], 24)).round(3)
    array([[0.261, 0.261]])
    """
    period = positive_number(period, "period")
    angles = 2.0 * np.pi / period * _numbers(X)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


def on_sphere(X: ArrayLike) -> NDArray[np.float64]:
    """Points of the unit sphere for latitudes and longitudes.

    Their Euclidean distance is ``2 sin(a / 2)`` for the angle a between two places, so that every
    kernel of it is one of great-circle distances, and positive definite.

    Parameters
    ----------
    X : array of shape (n, 2)
        Latitudes from -90 to 90 and longitudes, in degrees; NaN gives NaN.

    Returns
    -------
    ndarray of shape (n, 3)
        Towards longitude 0, longitude 90 degrees east, and the north pole. An estimator must give
        them one scale, by ``scale=[[0, 1, 2]]``: with scales of their own, distances are no longer
        those of the globe.

    Raises
    ------
    ValueError
        If X has other than two columns, or a latitude beyond the poles.

    Examples
    --------
    From Honolulu to Auckland across the date line, in kilometres:

    >>> import numpy as np
    >>> from mercer.preparation import on_sphere
    >>> first, second = on_sphere([[21.31, -157.86], [-36.85, 174.76]])
    >>> int(2 * 6371 * np.arcsin(np.linalg.norm(first - second) / 2))
    7076
    """
    places = _numbers(X)
    if places.shape[1] != 2:
        raise ValueError(f"X must have two columns, latitude and longitude; got {places.shape[1]}.")
    latitude, longitude = np.radians(places).T
    if (np.abs(places[:, 0]) > 90).any():
        raise ValueError(
            "X must have latitudes from -90 to 90 in its first column; got "
            f"{places[np.nanargmax(np.abs(places[:, 0])), 0]:g}."
        )
    ring = np.cos(latitude)
    return np.stack([ring * np.cos(longitude), ring * np.sin(longitude), np.sin(latitude)], axis=1)


def _numbers(X: Any) -> NDArray[np.float64]:
    """Columns (n, d) of numbers."""
    columns = check_array(
        X, dtype=np.float64, ensure_2d=False, ensure_all_finite="allow-nan", input_name="X"
    )
    return columns.reshape(len(columns), -1)
