"""Settings of a map that name its kernel, and copies of it at other scales."""

from __future__ import annotations

from numbers import Real
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone

from mercer import kernels
from mercer._runtime.messages import shown
from mercer._runtime.validation import scale_of_distance
from mercer.kernels.base import Gamma

__all__ = ["StatesKernel", "is_number", "meant_for"]

_TOO_MANY = 2**31  # number of features above which an argument is surely a mistake


class StatesKernel(BaseEstimator):
    """A base of maps: the kernel that the settings ``kernel`` and ``gamma`` name, if there are any.

    A subclass with a ``random_state`` says ``fix_key()`` and keeps ``_draws``.
    """

    def with_gamma(self, gamma: Gamma) -> Self:
        """An unfitted copy with another gamma and the same random numbers.

        All copies share the random numbers of this map, whatever ``random_state`` is, so that they
        differ in scale only. A map that is not yet fitted draws its key now and uses it in ``fit``,
        unless ``random_state`` is changed.

        Parameters
        ----------
        gamma : float, array of shape (d,), "scale" or "median"
            New factor of the distance in the kernel, > 0.

        Raises
        ------
        ValueError
            If ``gamma`` is invalid, or the map or its kernel has no scale.

        Examples
        --------
        >>> from mercer.maps import RandomBinning
        >>> narrow, wide = (RandomBinning(n_components=2).with_gamma(g) for g in (9.0, 0.1))
        >>> narrow
        RandomBinning(gamma=9.0, n_components=2)
        """
        gamma = scale_of_distance(gamma)
        kernel = self.stated_kernel()
        setting = self.get_params(deep=False).get("kernel")
        if kernel is None or kernel.gamma is None:
            stated = type(self).__name__ + (f" with kernel={setting!r}" if setting else "")
            raise ValueError(f"gamma must be left out for {stated}, which has no scale.")
        copy = clone(self)._state_gamma(gamma)
        if "random_state" in self.get_params(deep=False):
            self.fix_key()
            copy.random_state = self.random_state  # the generator itself, not a copy of it
            copy._draws = self._draws
        return copy

    def stated_kernel(self) -> Any:
        """The kernel that the settings name, not yet resolved; None if they name none."""
        if "kernel" not in vars(self):
            return None
        self._refuse_number("kernel", "a name, a Kernel or a function of (X, Y)")
        return kernels.get(self.kernel, self.gamma)

    def placed(self, names: Any) -> Self:
        """This map, or a copy whose kernel has positions for names of columns, of all columns."""
        kernel = self.stated_kernel()
        placed = None if kernel is None else kernel.placed(names)
        return self if placed is None or placed == kernel else clone(self).state_kernel(placed)

    def state_kernel(self, kernel: kernels.Kernel) -> Self:
        """Name ``kernel``, of the kind that the settings name, in the settings."""
        if "kernel" in self.get_params(deep=False):
            return self.set_params(kernel=kernel, gamma="scale")
        return self.set_params(gamma=kernel.gamma)

    def _state_gamma(self, gamma: Gamma) -> Self:
        """Name another scale of the same kernel in the settings."""
        if isinstance(self.get_params(deep=False).get("kernel"), kernels.Kernel):
            return self.state_kernel(self.stated_kernel().with_gamma(gamma))
        return self.set_params(gamma=gamma)

    def _refuse_number(self, name: str, rule: str) -> None:
        """Refuse a number for the setting ``name``, which is meant for the next one of a number."""
        value = getattr(self, name)
        if is_number(value):
            told = meant_for(self._number_setting, value)
            raise ValueError(f"{name} must be {rule}; got {shown(value)}{told}.")

    @property
    def _number_setting(self) -> str | None:
        """The setting that a first argument in numbers is meant for."""
        return "n_components" if "n_components" in self.get_params(deep=False) else None


def is_number(value: Any) -> bool:
    """Whether ``value`` is a number, for which True and False do not count."""
    return isinstance(value, Real) and not isinstance(value, (bool, np.bool_))


def meant_for(setting: str | None, value: Any) -> str:
    """The end of a sentence that refuses a number: where it belongs, if there is a setting."""
    if setting is None or not 0 < value < _TOO_MANY or value != int(value):
        return ""
    return f": write {setting}={shown(int(value))}"
