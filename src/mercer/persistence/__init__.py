"""Models as files: written whole or not at all, and read without running what they hold."""

from __future__ import annotations

import copy
import importlib
import inspect
import io
import os
import pkgutil
import stat
import zipfile
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from sklearn.base import BaseEstimator

from mercer import __version__
from mercer._runtime.arrays import check_memory
from mercer._runtime.files import write_atomically
from mercer._runtime.state import State
from mercer.persistence.audit import SPARSE, WORTH_PACKING, Damaged, foreign_type, kind_of_file
from mercer.persistence.manifest import check_manifest, with_manifest
from mercer.persistence.reading import Other, read

__all__ = [
    "SavedModel",
    "dumps",
    "load",
    "load_saved",
    "save",
    "trusted_types",
    "write_atomically",
]

_BINARY = getattr(os, "O_BINARY", 0)  # Windows translates ends of lines otherwise

# The modules whose classes make up a fitted model, packages with everything below them. A file may
# name these classes, and numbers and arrays: see ``audit``.
_TRUSTED_MODULES = (
    "mercer.auto",
    "mercer.designs.occupancy",
    "mercer.estimators",
    "mercer.kernels",
    "mercer.losses",
    "mercer.maps",
    "mercer.penalties",
    "mercer.persistence",
    "mercer.preparation",
    "mercer.solvers",
    "mercer.unsupervised",
)

# Classes of earlier versions that are gone, and the last version that reads them.
_LEFT = dict.fromkeys(
    (
        "mercer.kernels.ensembles.Stump",
        "mercer.kernels.smooth.Smooth",
        "mercer.maps.compact.CompactFeatures",
        "mercer.maps.ensembles.RandomStump",
        "mercer.maps.ensembles.RandomTree",
    ),
    "0.3.0",
)


@dataclass(frozen=True)
class SavedModel:
    """A fitted model with the names that it needs for other tables.

    Parameters
    ----------
    model : estimator
        Fitted model.
    task : {"classification", "regression"} or None, default=None
        Task of the model; None derives it from the model.
    target : str or None, default=None
        Name of the column that the model predicts.
    feature_names : list of str or None, default=None
        Names of the input columns, in the order of the model.
    settings : dict, default={}
        Facts about the fit, as chosen by the caller.
    mercer_version : str
        Version of mercer that wrote the file.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> SavedModel(Ridge(), target="price").target
    'price'
    """

    model: Any
    task: str | None = None
    target: str | None = None
    feature_names: list[str] | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    mercer_version: str = __version__

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update({name: state[name] for name in _FIELDS if name in state})
        saved = State(self)
        saved.instance("model", BaseEstimator)
        saved.one_of("task", (None, "classification", "regression"))
        saved.instance("target", (str, type(None)))
        saved.instance("mercer_version", str)
        names = saved.instance("feature_names", (list, type(None)))
        saved.check("feature_names", "hold texts", all(isinstance(n, str) for n in names or ()))
        saved.instance("settings", dict)


_FIELDS = tuple(SavedModel.__dataclass_fields__)


def _without_callbacks(model: Any) -> Any:
    """The model without callbacks, such as a progress bar, and without its cluster."""
    model = model.to_local() if hasattr(model, "to_local") else model
    if not getattr(model, "_skl_callbacks", None):
        return model
    plain = copy.copy(model)
    del plain._skl_callbacks
    return plain


def save(
    model: Any,
    path: str | os.PathLike[str],
    *,
    task: str | None = None,
    target: str | None = None,
    feature_names: list[str] | None = None,
    settings: dict[str, Any] | None = None,
) -> int:
    """Write a fitted model to a file, atomically.

    The function writes a temporary file in the same folder and then renames it to ``path``: a full
    disk or an interrupt leaves the old file.

    Parameters
    ----------
    model : estimator
        Fitted model of mercer. The file does not include its callbacks.
    path : str or path-like
        File to write, usually with the ending ``.skops``.
    task, target, feature_names, settings
        Facts stored with the model, see :class:`SavedModel`.

    Returns
    -------
    int
        Size of the file in bytes.

    Raises
    ------
    TypeError
        If the model contains an object that a model file cannot store, such as a Python function.
    OSError
        If the file cannot be written.
    ImportError
        If skops is missing.

    Examples
    --------
    >>> import tempfile, numpy as np, mercer
    >>> from mercer import persistence
    >>> X = np.arange(20.0)[:, None]
    >>> model = mercer.KernelRegressor(random_state=0).fit(X, X[:, 0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     size = persistence.save(model, f"{folder}/line.skops", target="y")
    ...     again = persistence.load(f"{folder}/line.skops")
    >>> bool((again.predict(X) == model.predict(X)).all())
    True
    """
    saved = SavedModel(_without_callbacks(model), task, target, feature_names, settings or {})
    content = dumps(saved)
    try:
        foreign = foreign_type(content, _OwnTypes())
    except Damaged as error:
        raise TypeError(f"model must be what its fit left to be saved; {error}.") from error
    if foreign:
        remedy = ": name the device by a string" if foreign.endswith(" torch.device") else ""
        raise TypeError(
            f"model must be made of mercer's own parts to be saved; it holds {foreign}, which a "
            f"model file cannot carry{remedy}."
        )
    write_atomically(path, content)
    return len(content)


def dumps(model: Any) -> bytes:
    """The bytes of the file of a fitted model or a :class:`SavedModel`.

    A TypeError if it holds something that has no place in a file, such as a lock.
    """
    try:
        content = _skops().dumps(model)
        if len(content) <= WORTH_PACKING:
            content = _skops().dumps(model, compression=zipfile.ZIP_DEFLATED)
        return with_manifest(content)
    except (ImportError, MemoryError):
        raise
    except Exception as error:  # skops and the parts it meets raise all sorts
        raise TypeError(f"model must hold data alone to be saved; {_one_line(error)}") from error


def load(path: str | os.PathLike[str]) -> Any:
    """Read the model from a file that :func:`save` wrote.

    The function restores only types of mercer and types that skops trusts. It unpickles nothing and
    runs no code of the file.

    Parameters
    ----------
    path : str or path-like
        File to read.

    Returns
    -------
    estimator
        Fitted model, with the predictions of the saved one.

    Raises
    ------
    ValueError
        If the file is no model file of mercer, is damaged, has a later format, or contains a type
        that is not trusted.
    OSError
        If the file cannot be read.

    Examples
    --------
    >>> from mercer import persistence
    >>> persistence.load("missing.skops")
    Traceback (most recent call last):
    ...
    FileNotFoundError: cannot read missing.skops: No such file or directory.
    """
    return load_saved(path).model


def trusted_types() -> list[str]:
    """Names of the types that a file of a model may hold, for tools that read skops files.

    MLflow takes them as ``skops_trusted_types``, ``skops.io.load`` as ``trusted``. :func:`load`
    trusts the same types and also checks that the parts of a file agree.

    Returns
    -------
    list of str
        Full names of the classes of mercer's models and of sparse rows, sorted.

    Examples
    --------
    >>> from mercer import persistence
    >>> "mercer.estimators.regression.KernelRegressor" in persistence.trusted_types()
    True
    """
    return sorted(_own_types() | SPARSE)


def load_saved(path: str | os.PathLike[str]) -> SavedModel:
    """Read a model's file with the data beside the model; errors as for :func:`load`."""
    content = _content(path)
    if not zipfile.is_zipfile(io.BytesIO(content)):
        raise ValueError(
            f"{path} is not a model file of mercer (a skops archive) but {kind_of_file(content)}."
        )
    own = _OwnTypes()
    try:
        foreign = foreign_type(content, own)
        if not foreign:
            check_manifest(content)
    except MemoryError:
        raise
    except Damaged as error:
        raise ValueError(f"{path} is not a model file of mercer, or damaged: {error}.") from error
    except Exception as error:  # a stranger's archive can be wrong in any way
        raise ValueError(f"{path} is not a model file of mercer, or it is damaged.") from error
    if foreign:
        if (reader := _LEFT.get(foreign.split(" ")[-1])) is not None:
            raise ValueError(
                f"{path} holds {foreign}, which mercer {__version__} no longer has; install "
                f"mercer=={reader} to read the file."
            )
        raise ValueError(
            f"{path} holds {foreign}, which mercer does not trust, so nothing of it was loaded."
        )
    try:
        try:
            saved = read(content, own.met)
        except Other:
            saved = _skops().loads(content, trusted=sorted(own.met | SPARSE))
    except (ImportError, MemoryError):
        raise
    except Exception as error:  # content that does not fit its types
        raise ValueError(f"{path} is damaged: {_one_line(error)}") from error
    if not isinstance(saved, SavedModel):
        raise ValueError(f"{path} holds a {type(saved).__name__}, not a model saved by mercer.")
    return saved


def _content(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a file that is one: a pipe would be waited for, a device has no end."""
    try:
        # A pipe is opened at once like this, and turned away.
        number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _BINARY)
        with open(number, "rb") as file:
            state = os.fstat(number)
            if not stat.S_ISREG(state.st_mode):
                raise OSError(None, "it is not a plain file")
            check_memory(state.st_size, f"reading {path}", "free memory")
            return file.read()
    except OSError as error:
        raise type(error)(f"cannot read {path}: {error.strerror}.") from error


def _skops() -> Any:
    try:
        from skops import io as skops_io
    except ModuleNotFoundError as error:
        raise ImportError(
            "model files need skops; pip install 'mercer[skops]' brings it."
        ) from error
    return skops_io


class _OwnTypes:
    """Full names of model classes of mercer; ``met`` are those asked for.

    Only the modules of the names asked for are imported: all take longer than a small prediction.
    """

    def __init__(self) -> None:
        self.met: set[str] = set()

    def __contains__(self, name: object) -> bool:
        if name not in self.met and _is_own(str(name)):
            self.met.add(str(name))
        return name in self.met


def _is_own(name: str) -> bool:
    home, _, short = name.rpartition(".")
    if not any(home == module or home.startswith(f"{module}.") for module in _TRUSTED_MODULES):
        return False
    if not all(part.isidentifier() and not part.startswith("__") for part in home.split(".")):
        return False
    try:
        value = vars(importlib.import_module(home)).get(short)
    except ModuleNotFoundError:
        return False
    return inspect.isclass(value) and f"{value.__module__}.{value.__qualname__}" == name


@cache
def _own_types() -> frozenset[str]:
    """Full names of all model classes of mercer."""
    modules = []
    for name in _TRUSTED_MODULES:
        modules.append(importlib.import_module(name))
        below = pkgutil.walk_packages(getattr(modules[-1], "__path__", []), f"{name}.")
        modules += [importlib.import_module(module.name) for module in below]
    return frozenset(
        f"{value.__module__}.{value.__qualname__}"
        for module in modules
        for _, value in inspect.getmembers(module, inspect.isclass)
        if value.__module__ == module.__name__
    )


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if text.endswith(".") else text + "."
