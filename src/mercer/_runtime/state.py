"""Fitted objects are valid or refused: when they are loaded or copied, and when they are used."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from inspect import Parameter, signature
from numbers import Integral, Real
from operator import is_
from types import ModuleType
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from mercer._runtime.array_api import AnyArrays
from mercer._runtime.arrays import Matrix
from mercer._runtime.documentation import Linked

__all__ = ["Checked", "State", "holds_once"]

_SHOWN = 60  # characters of a value that a sentence shows
# Numbers from which arrays are looked at once: another look takes longer than to predict a row.
_LARGE = 2**10
# Rules that large arrays were found to keep, by rule and identity, while all of them live.
_kept_rules: dict[tuple[Any, ...], tuple[weakref.ref, ...]] = {}
_MOST_PARTS = 64  # objects and dictionaries within a fitted object that a snapshot looks into
# Objects whose state was found to be valid, and what it was.
_snapshots: weakref.WeakKeyDictionary[Checked, Snapshot] = weakref.WeakKeyDictionary()


class Checked(AnyArrays, Linked):
    """An estimator whose fitted attributes fit each other, or that refuses to be used.

    A subclass says what its attributes have to be in ``_check_state``. That is asked when the
    object is unpickled, copied or read from a file, and by ``_check_fitted``, with which every
    method begins that needs a fit: attributes can be edited in between. The numbers of a large
    array are looked at once: whoever writes into one later is not stopped.

    Where ``_is_remembered``, a state that is object for object what it was at the last check, small
    arrays bit for bit, is not checked again: that takes longer than to predict a row.
    """

    _fitted_by: ClassVar[str]  # the attribute that is there when a fit came to its end
    # Settings that are looked at after the fit, which keeps ``form`` as ``_form_``.
    _kept_settings: ClassVar[tuple[str, ...]] = ()
    _is_remembered: ClassVar[bool] = False

    def _forget(self) -> None:
        """Leave nothing of an earlier fit, and keep the settings of this one."""
        self._forget_check()
        for name in [name for name in vars(self) if name.endswith("_")]:
            del self.__dict__[name]
        for name in self._kept_settings:
            setattr(self, f"_{name}_", getattr(self, name))

    def _forget_check(self) -> None:
        """Keep nothing of a state that was checked: a fit would hold two of them."""
        _snapshots.pop(self, None)

    def _check_state(self) -> None:
        """Refuse fitted attributes that are not what a fit leaves."""
        raise NotImplementedError

    def _seen(self) -> Snapshot | None:
        """The state at the last check, if it is that of now."""
        seen = _snapshots.get(self)
        return seen if seen is not None and seen.is_of(self) else None

    def _check_fitted(self) -> None:
        """Refuse what is not fitted, or was changed since."""
        if self._is_remembered and self._seen() is not None:
            return
        check_is_fitted(self, self._fitted_by)
        self._check_state()
        if self._is_remembered:
            _snapshots[self] = Snapshot(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        kept = {}
        for name, value in state.items():
            member = getattr(type(self), name, None)
            if name.startswith("__") or callable(member):
                raise ValueError(f"{name} of {type(self).__name__} is not to be set by a file.")
            if not isinstance(member, property):  # what follows from the rest is not taken from it
                kept[name] = value
        for name, setting in signature(type(self)).parameters.items():
            if setting.default is not Parameter.empty:  # files may be older than a setting
                kept.setdefault(name, setting.default)
        super().__setstate__(kept)  # type: ignore[misc]
        if hasattr(self, self._fitted_by):
            self._check_state()


class Snapshot:
    """The attributes of an object, those of the objects among them, and the bytes of small arrays.

    Settings and lists are taken for what they are, not for their parts, which no check reads.
    ``made`` is for what others derive from this state, and is forgotten with it.
    """

    def __init__(self, owner: Any):
        self.made: dict[str, Any] = {}
        # The owner itself is left out: what is kept for an object must not keep it.
        self._parts: list[tuple[Any, list[str], list[Any]]] = []
        self._arrays: list[tuple[Any, ...]] = []
        entered: set[int] = {id(owner)}
        todo: list[tuple[Any, Any]] = [(None, owner)]
        for part, whole in todo:  # which grows
            names = whole if isinstance(whole, dict) else vars(whole)
            self._parts.append((part, list(names), list(names.values())))
            for name, value in names.items():
                if isinstance(value, np.ndarray):
                    content = value.tobytes() if value.size < _LARGE else None
                    self._arrays.append((value, value.shape, value.dtype, content))
                elif id(value) not in entered and _is_entered(whole, name, value):
                    entered.add(id(value))
                    todo.append((value if isinstance(value, dict) else vars(value), value))
        self._is_whole = len(todo) <= _MOST_PARTS

    def is_of(self, owner: Any) -> bool:
        """Whether the object is in the same state."""
        for part, names, values in self._parts:
            within = vars(owner) if part is None else part
            if list(within) != names or not all(map(is_, within.values(), values)):
                return False
        for array, shape, dtype, content in self._arrays:
            if array.shape != shape or array.dtype is not dtype:
                return False
            if content is not None and array.tobytes() != content:
                return False
        return self._is_whole


def _is_entered(owner: Any, name: str, value: Any) -> bool:
    """Whether a snapshot looks at what an attribute is made of."""
    if isinstance(owner, Checked) and not name.endswith("_"):
        return False
    inner = isinstance(value, dict) or hasattr(value, "__dict__")
    return inner and not isinstance(value, (type, ModuleType))


class State:
    """The fitted attributes of an object; a ValueError where one is missing or breaks a rule.

    >>> from types import SimpleNamespace
    >>> State(SimpleNamespace(coef_=[1.0])).array("coef_", (3,))
    Traceback (most recent call last):
    ...
    ValueError: coef_ of a fitted SimpleNamespace must be an array of finite floats of shape (3,); \
got [1.0]: fit it again.
    """

    def __init__(self, owner: Any):
        self.owner = owner

    def value(self, name: str) -> Any:
        """The attribute, whatever it is."""
        try:
            return getattr(self.owner, name)
        except AttributeError:
            kind = type(self.owner).__name__
            raise ValueError(f"{name} of a fitted {kind} is missing: fit it again.") from None

    def refuse(self, name: str, rule: str) -> NoReturn:
        """Say that an attribute breaks a rule."""
        kind = type(self.owner).__name__
        raise ValueError(
            f"{name} of a fitted {kind} must {rule}; got {_shown(self.value(name))}: fit it again."
        )

    def check(self, name: str, rule: str, holds: Any) -> None:
        """Refuse the attribute unless the rule holds."""
        if not holds:
            self.refuse(name, rule)

    def integer(self, name: str, least: int = 0, most: int = 2**63 - 1) -> int:
        """A whole number from ``least`` to ``most``."""
        value = self.value(name)
        whole = isinstance(value, Integral) and not isinstance(value, (bool, np.bool_))
        rule = f"be an integer from {least} to {most}"
        self.check(name, rule, whole and least <= value <= most)
        return int(value)

    def number(self, name: str, least: float = -np.inf) -> float:
        """A finite number of at least ``least``."""
        value = self.value(name)
        real = isinstance(value, Real) and not isinstance(value, (bool, np.bool_))
        rule = "be a finite number" + ("" if least == -np.inf else f" of at least {least:g}")
        self.check(name, rule, real and abs(value) <= np.finfo(float).max and value >= least)
        return float(value)

    def flag(self, name: str) -> bool:
        """True or False."""
        value = self.value(name)
        self.check(name, "be True or False", isinstance(value, (bool, np.bool_)))
        return bool(value)

    def one_of(self, name: str, names: Iterable[Any]) -> Any:
        """One of some words."""
        names, value = list(names), self.value(name)
        known = (value is None or isinstance(value, str)) and value in names
        self.check(name, f"be one of {', '.join(map(repr, names))}", known)
        return value

    def instance(self, name: str, kind: type | tuple[type, ...]) -> Any:
        """An object of a class."""
        value = self.value(name)
        kinds = kind if isinstance(kind, tuple) else (kind,)
        self.check(name, "be a " + " or ".join(k.__name__ for k in kinds), isinstance(value, kind))
        return value

    def array(
        self,
        name: str,
        shape: tuple[int | None, ...] | None,
        dtypes: str = "fd",
        least: float = -np.inf,
        most: float = np.inf,
    ) -> NDArray:
        """An array of finite numbers between ``least`` and ``most``.

        None stands for any length, or for any shape; ``dtypes`` are the characters of the types
        that it may have, "f" and "d" being float32 and float64.
        """
        value = self.value(name)
        sizes = "" if shape is None else f" of shape {_shape(shape)}"
        words = "finite floats" if dtypes in ("d", "fd") else _KINDS.get(dtypes, "numbers")
        rule = f"be an array of {words}{sizes}"
        self.check(name, rule, is_array(value, shape, dtypes))
        self.check(name, rule, holds_once("finite", lambda: is_finite(value), value))
        if value.size and (least > -np.inf or most < np.inf):
            rule = f"hold numbers from {least:g} to {most:g}"

            def inside() -> bool:
                return bool(value.min() >= least and value.max() <= most)

            self.check(name, rule, holds_once((least, most), inside, value))
        return value

    def numbers(self, name: str, shape: tuple[int | None, ...]) -> NDArray:
        """Finite floats of that shape: an array, or one of Python's or NumPy's where it is ()."""
        value = self.value(name)
        if not shape and isinstance(value, (float, np.floating)):
            self.check(name, "be a finite float", np.isfinite(value))
            return np.asarray(value)
        return self.array(name, shape)

    def rows(self, name: str, n_columns: int) -> Matrix:
        """An array or a CSR matrix of so many columns, of finite numbers."""
        value = self.value(name)
        if not sparse.issparse(value):
            return self.array(name, (None, n_columns))
        rule = f"be an array or a valid CSR matrix of finite floats with {n_columns} columns"
        self.check(name, rule, value.ndim == 2 and value.shape[1] == n_columns)
        self.check(name, rule, is_csr(value))
        return value


_KINDS = {"l": "64-bit integers", "?": "booleans", "lL": "integers"}


def holds_once(rule: Any, holds: Callable[[], bool], *arrays: NDArray) -> bool:
    """Whether ``holds()``; where large arrays were found to keep the rule, they are not read again.

    ``rule``, which is hashable, tells it from others; the arrays are what it looks at.
    """
    if sum(array.size for array in arrays) < _LARGE:
        return holds()
    key = (rule, *map(id, arrays))
    kept = _kept_rules.get(key)
    if kept is not None and all(ref() is a for ref, a in zip(kept, arrays, strict=True)):
        return True
    is_kept = holds()
    if is_kept:
        _kept_rules[key] = tuple(
            weakref.ref(array, lambda _: _kept_rules.pop(key, None)) for array in arrays
        )
    return is_kept


def is_array(value: Any, shape: tuple[int | None, ...] | None, dtypes: str = "fd") -> bool:
    """Whether ``value`` is an array of that shape, None standing for any length, and type."""
    if not isinstance(value, np.ndarray) or isinstance(value, np.ma.MaskedArray):
        return False
    known = value.dtype.char in dtypes.replace("l", "lq").replace("L", "LQ")
    if not (known and value.dtype.isnative):
        return False
    if shape is None:
        return True
    fits = zip(value.shape, shape, strict=False)
    return value.ndim == len(shape) and all(n is None or n == m for m, n in fits)


def is_finite(values: NDArray) -> bool:
    """Whether all numbers are finite, by their sum unless that overflows."""
    if values.dtype.kind not in "fc":
        return True
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(values.sum()) or np.isfinite(values).all())


def is_csr(X: Any) -> bool:
    """Whether X is a CSR matrix of finite floats whose indices all point into it."""
    if X.format != "csr" or X.data.dtype.char not in "fd" or not is_finite(X.data):
        return False
    try:
        X.check_format(full_check=True)
    except (TypeError, ValueError):
        return False
    return True


def _shape(shape: tuple[int | None, ...]) -> str:
    sizes = ["any" if size is None else str(size) for size in shape]
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"


def _shown(value: Any) -> str:
    """A value in a few words on one line."""
    if isinstance(value, np.ndarray) or sparse.issparse(value):
        numbers = value.data if sparse.issparse(value) else value
        odd = numbers.dtype.kind == "f" and not is_finite(numbers)
        return f"shape {value.shape}, {value.dtype}" + (", not all finite" if odd else "")
    text = " ".join(repr(value).split())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
