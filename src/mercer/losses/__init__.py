"""Losses: pointwise functions of a response u and a target y, with no sum over rows anywhere.

Adding one: subclass ``Loss``, write ``value``, ``gradient`` and ``hessian`` (``conjugate`` if it is
convex, else ``model_curvature``), and name the class in ``LOSSES``; the tests go through that
table. With a functor in ``cpp/compute/loss.hpp`` asynchronous steps take it, too.
"""

from __future__ import annotations

from mercer._runtime.validation import name_from
from mercer.losses.base import Loss
from mercer.losses.classification import Hinge, Logistic, Sigmoid, SmoothHinge, SquaredHinge
from mercer.losses.counts import Gamma, Poisson, Tweedie
from mercer.losses.multinomial import Multinomial
from mercer.losses.quantiles import Expectile, Quantile, SmoothQuantile
from mercer.losses.regression import Correntropy, Huber, Squared

__all__ = [
    "Correntropy",
    "Expectile",
    "Gamma",
    "Hinge",
    "Huber",
    "Logistic",
    "Loss",
    "Multinomial",
    "Poisson",
    "Quantile",
    "Sigmoid",
    "SmoothHinge",
    "SmoothQuantile",
    "Squared",
    "SquaredHinge",
    "Tweedie",
    "get",
    "names",
]

_ALL = (
    *(Squared, Huber, Correntropy, Quantile, SmoothQuantile, Expectile, Poisson, Gamma, Tweedie),
    *(Logistic, Hinge, SquaredHinge, SmoothHinge, Sigmoid, Multinomial),
)
LOSSES: dict[str, type[Loss]] = {cls.name: cls for cls in _ALL}


def names() -> list[str]:
    """Names of the losses that :func:`get` accepts."""
    return list(LOSSES)


def get(loss: str | Loss) -> Loss:
    """Return a loss from a name, or the loss object given.

    Parameters
    ----------
    loss : str or Loss
        "squared", "huber", "correntropy", "quantile", "smooth_quantile", "expectile", "poisson",
        "gamma", "tweedie", "logistic", "hinge", "squared_hinge", "smooth_hinge", "sigmoid" or
        "multinomial".

    Raises
    ------
    ValueError
        If there is no loss of that name.

    Examples
    --------
    >>> from mercer import losses
    >>> losses.get("huber")
    Huber(delta=1.35)
    """
    if isinstance(loss, Loss):
        return loss
    return LOSSES[name_from(loss, LOSSES, "loss")]()
