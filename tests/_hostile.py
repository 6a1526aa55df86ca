"""Inputs that break rules, and every place where such inputs can come in.

``python -c "import _hostile; _hostile.sweep_sparse()"`` prints a line of JSON before and after each
attack with a sparse matrix, so that whoever reads them knows which one ended the process.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from _hostile_sparse import (
    HUGE,
    N_COLUMNS,
    N_ROWS,
    invalid_sparse,
    labels,
    rows,
    target,
    unusual_sparse,
)
from mercer import (
    AutoKernelClassifier,
    AutoKernelRegressor,
    DoublySGDClassifier,
    DoublySGDRegressor,
    DualKernelSVC,
    GradientScaler,
    KernelClassifier,
    KernelRegressor,
    LocalKernelClassifier,
    LocalKernelRegressor,
    SparseKernelClassifier,
    SparseKernelRegressor,
    TablePreparer,
    designs,
    kernels,
    losses,
    maps,
    penalties,
    solvers,
)

# --- where rows come in --------------------------------------------------------------------

SMALL = {"n_components": 4, "random_state": 0}
LEAVES = {"leaf_size": 8, "n_trees": 2, "random_state": 0}
MAPS: dict[str, Callable[[], Any]] = {
    "RandomBinning": lambda: maps.RandomBinning(**SMALL),
    "RandomBinning(bins)": lambda: maps.RandomBinning(bins=8, **SMALL),
    "RandomFourier": lambda: maps.RandomFourier(**SMALL),
    "Fastfood": lambda: maps.Fastfood(**SMALL),
    "Nystroem": lambda: maps.Nystroem(**SMALL),
    "ExactKernel": lambda: maps.ExactKernel(),
    "LocalKernel": lambda: maps.LocalKernel(**LEAVES),
    "IdentityMap": lambda: maps.IdentityMap(),
    "RandomPerceptron": lambda: maps.RandomPerceptron(**SMALL),
    "SubspaceEmbedding": lambda: maps.SubspaceEmbedding(n_base=8, **SMALL),
    "Halfspaces": lambda: maps.Halfspaces(rows()[:3], np.zeros(3)),
    "Members": lambda: maps.Members(
        maps.RandomFourier(n_components=4, scale=False, random_state=0), [0, 5]
    ),
}
KERNELS: dict[str, Callable[[], Any]] = {
    "Gaussian": lambda: kernels.Gaussian(0.5),
    "Laplacian": lambda: kernels.Laplacian(0.5),
    "Linear": kernels.Linear,
    "Perceptron": kernels.Perceptron,
    "Callable": lambda: kernels.Callable(lambda A, B: _dense(A @ B.T)),
    "Sum": lambda: kernels.Gaussian(0.5) + kernels.Laplacian(0.5),
    "Scaled": lambda: 2.0 * kernels.Gaussian(0.5),
    "On": lambda: kernels.Gaussian(0.5).on([0]),
}
REGRESSORS: dict[str, Callable[[], Any]] = {
    "KernelRegressor": lambda: KernelRegressor(**SMALL),
    "KernelRegressor(exact)": lambda: KernelRegressor("exact", random_state=0),
    "KernelRegressor(nystroem)": lambda: KernelRegressor("nystroem", **SMALL),
    "KernelRegressor(linear)": lambda: KernelRegressor("linear", scale=False),
    "SparseKernelRegressor": lambda: SparseKernelRegressor(n_new=4, max_rounds=2, random_state=0),
    "LocalKernelRegressor": lambda: LocalKernelRegressor(**LEAVES),
    "DoublySGDRegressor": lambda: DoublySGDRegressor(max_iter=2, block_size=4, random_state=0),
}
CLASSIFIERS: dict[str, Callable[[], Any]] = {
    "KernelClassifier": lambda: KernelClassifier(**SMALL),
    "SparseKernelClassifier": lambda: SparseKernelClassifier(n_new=4, max_rounds=2, random_state=0),
    "LocalKernelClassifier": lambda: LocalKernelClassifier(**LEAVES),
    "DoublySGDClassifier": lambda: DoublySGDClassifier(max_iter=2, block_size=4, random_state=0),
    "DualKernelSVC": DualKernelSVC,
}
TRANSFORMERS: dict[str, Callable[[], Any]] = {
    "TablePreparer": lambda: TablePreparer(random_state=0),
    "GradientScaler": lambda: GradientScaler(random_state=0),
}
# Their fits take seconds, so what they are refused is refused in their first steps.
SLOW: dict[str, Callable[[], Any]] = {
    "AutoKernelRegressor": lambda: AutoKernelRegressor(time_budget=1.0, random_state=0),
    "AutoKernelClassifier": lambda: AutoKernelClassifier(time_budget=1.0, random_state=0),
}


def doors() -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """Every place where rows come in: a name, and a function of X that returns numbers."""
    X = rows()
    for name, make in MAPS.items():
        yield f"{name}.fit", lambda S, make=make: _dense(make().fit(S).transform(X[:5]))
        yield f"{name}.fit_transform", lambda S, make=make: _dense(make().fit_transform(S))
        yield f"{name}.fit_design", lambda S, make=make: make().fit_design(S).toarray()
        fitted = make().fit(X)
        yield f"{name}.transform", lambda S, f=fitted: _dense(f.transform(S))
        yield f"{name}.transform_block", lambda S, f=fitted: f.transform_block(S, [1])
        yield f"{name}.design", lambda S, f=fitted: f.design(S).toarray()
        yield (
            f"{name}.designs",
            lambda S, f=fitted: [d.toarray() for _, d in f.designs(S)],
        )
    for name, make_kernel in KERNELS.items():
        kernel = make_kernel().resolve(X)
        yield f"{name}(X)", lambda S, k=kernel: k(S)
        if name != "Callable":
            yield f"{name}(X, Y)", lambda S, k=kernel: k(X, S)
            yield f"{name}.diag", lambda S, k=kernel: k.diag(S)
    yield (
        "Gaussian.resolve",
        lambda S: np.array([kernels.Gaussian(g).resolve(S).gamma for g in ("scale", "median")]),
    )
    yield "designs.Sparse", lambda S: designs.Sparse(S).matvec(np.ones(N_COLUMNS))
    for name, make in {**REGRESSORS, **CLASSIFIERS}.items():
        y = target() if name in REGRESSORS else labels()
        yield f"{name}.fit", lambda S, make=make, y=y: _answers(make().fit(S, y), S)
        fitted = make().fit(sparse.csr_array(X), y)
        yield f"{name}.predict", lambda S, f=fitted: _answers(f, S)
        if hasattr(fitted, "partial_fit"):
            yield (
                f"{name}.partial_fit",
                lambda S, make=make, y=y: _answers(make().partial_fit(S, y), X),
            )
    for name, make in TRANSFORMERS.items():
        yield f"{name}.fit", lambda S, make=make: _dense(make().fit(S, target()).transform(S))
        fitted = make().fit(sparse.csr_array(X), target())
        yield f"{name}.transform", lambda S, f=fitted: _dense(f.transform(S))


def slow_doors() -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """Where rows come in whose answers take long or differ from run to run."""
    for name, make in SLOW.items():
        y = target() if name.endswith("Regressor") else labels()
        yield f"{name}.fit", lambda S, make=make, y=y: make().fit(S, y)


def _dense(Z: Any) -> np.ndarray:
    return Z.toarray() if sparse.issparse(Z) else np.asarray(Z)


def _answers(model: Any, X: Any) -> np.ndarray:
    """What a fitted model says of rows, in numbers."""
    decide = getattr(model, "decision_function", model.predict)
    return np.asarray(decide(X), dtype=np.float64)


def sweep_sparse(step: int = 1) -> None:
    """Send every ``step``-th sparse matrix through each door and print what came of it.

    Doors that follow one another take other matrices.
    """
    warnings.simplefilter("ignore")
    given = list(doors())
    for number, (door, enter) in enumerate([*given, *slow_doors()]):
        for name, make in list(invalid_sparse())[number % step :: step]:
            _say(door=door, input=name, outcome="crash")
            _say(door=door, input=name, **_outcome(enter, make()))
    honest = {door: enter(sparse.csr_array(rows())) for door, enter in given}
    for number, (door, enter) in enumerate(given):
        for name, make in list(unusual_sparse().items())[number % step :: step]:
            X = make()
            before = [np.copy(part) for part in _parts(X)]
            _say(door=door, input=name, outcome="crash")
            said = _outcome(enter, X)
            if said["outcome"] == "accepted":
                right = _same(said.pop("answer"), honest[door])
                said["outcome"] = "right" if right else "wrong"
            if not all(map(_unchanged, before, _parts(X))):
                said["outcome"] = "changed the caller's matrix"
            _say(door=door, input=name, **said)


def _outcome(enter: Callable[[Any], Any], X: Any) -> dict[str, Any]:
    try:
        answer = enter(X)
    except (ValueError, TypeError) as error:
        return {"outcome": "refused", "error": type(error).__name__, "message": str(error)}
    except Exception as error:
        return {"outcome": "failed", "error": type(error).__name__, "message": str(error)}
    return {"outcome": "accepted", "answer": answer}


def _parts(X: Any) -> list[Any]:
    return [getattr(X, name) for name in ("data", "indices", "indptr") if X.format == "csr"]


def _unchanged(before: np.ndarray, after: Any) -> bool:
    return before.dtype == after.dtype and np.array_equal(before, after, equal_nan=True)


def _same(answer: Any, expected: Any) -> bool:
    return np.shape(answer) == np.shape(expected) and np.allclose(
        answer, expected, rtol=1e-6, atol=1e-6, equal_nan=True
    )


def _say(**words: Any) -> None:
    words.pop("answer", None)
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


# --- settings ------------------------------------------------------------------------------

VALUES: dict[str, Any] = {
    "None": None,
    "-1": -1,
    "0": 0,
    "nan": float("nan"),
    "inf": float("inf"),
    "-0.5": -0.5,
    "no letters": "",
    "a letter": "x",
    "an empty list": [],
    "an empty dict": {},
    "an object": object(),
    "an array of one": np.array(3),
    "an array": np.array([1.0, 2.0]),
    "True": True,
    "too large": 10**400,
    "bytes": b"x",
    "complex": 1j,
    "a class": int,
    "a list of None": [None],
}


def parameters() -> Iterator[tuple[str, str, Callable[[Any], Any]]]:
    """The owner and the name of every constructor parameter, and a function that puts a value in
    and makes use of it."""
    X, y, classes = rows(), target(), labels()
    learners = {**REGRESSORS, **CLASSIFIERS, **TRANSFORMERS, **SLOW}
    for owner, make in {**learners, **MAPS}.items():
        answer = classes if "Classifier" in owner or "SVC" in owner else y
        for name in make().get_params(deep=False):

            def use(value, make=make, name=name, answer=answer, owner=owner) -> Any:
                model = make().set_params(**{name: value})
                return model.fit(X, answer)

            yield owner, name, use
    made = {kind.__name__ for kind in solvers.SOLVERS.values()}
    for module in (kernels, losses, penalties, solvers):
        for owner in module.__all__:
            kind = getattr(module, owner)
            if not (dataclasses.is_dataclass(kind) and isinstance(kind, type)):
                continue
            if module is solvers and owner not in made:
                continue  # what solvers return, or are made of
            for field in dataclasses.fields(kind):
                if field.init:
                    yield owner, field.name, partial(_made, module, kind, field.name)


def _made(module: Any, kind: Any, name: str, value: Any) -> Any:
    """A value of a class with one setting replaced, put to use where that is quick."""
    settings = {name: value}
    if kind is kernels.Scaled:
        settings = {"kernel": kernels.Gaussian(0.5), "factor": 2.0, **settings}
    elif kind in (kernels.Sum, kernels.Times):
        settings = {"parts": (kernels.Gaussian(0.5), kernels.Laplacian(0.5)), **settings}
    elif kind is kernels.On:
        settings = {"kernel": kernels.Gaussian(0.5), "columns": [0], **settings}
    elif kind is penalties.RKHSNorm:
        settings = {"matrix": np.eye(2), **settings}
    elif kind is kernels.Callable:
        settings = {"function": lambda A, B: A @ B.T, **settings}
    elif kind is kernels.Product:
        settings = {
            "profile": lambda t: np.exp(-t),
            "derivative": lambda t: -np.exp(-t),
            **settings,
        }
    made = kind(**settings)
    if module is kernels and not made.takes_text:
        made = made.resolve(rows())
        made(rows())
    if module is losses:
        made.value(target(), np.abs(target()) < 0.5)
    return made


def settings_outcomes(
    wanted: Callable[[str, str, str], bool] = lambda owner, name, label: True,
) -> Iterator[dict[str, Any]]:
    """Outcomes of unlikely values of parameters: of those that are wanted."""
    for owner, name, use in parameters():
        for label, value in VALUES.items():
            if not wanted(owner, name, label):
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    use(value)
                    said: dict[str, Any] = {"outcome": "accepted"}
                except (ValueError, TypeError, MemoryError) as error:
                    said = {"outcome": "refused", "message": str(error)}
                except Exception as error:
                    said = {"outcome": "failed", "message": f"{type(error).__name__}: {error}"}
            yield {"owner": owner, "name": name, "value": label, **said}


# --- dense rows, targets and weights -------------------------------------------------------


def dense_inputs() -> dict[str, Callable[[], Any]]:
    """Makers of what may be given for the rows, of which ``EQUAL_ROWS`` hold the same numbers."""
    import pandas as pd

    from _polars import pl

    X = rows()
    names = list("abcdef")
    frame = pd.DataFrame(X, columns=names)
    nothing = X.astype(object)
    nothing[0, 0] = None
    return {
        "objects": lambda: X.astype(object),
        "lists": X.tolist,
        "a Fortran array": lambda: np.asfortranarray(X),
        "every other row": lambda: np.repeat(X, 2, axis=0)[::2],
        "big-endian": lambda: X.astype(">f8"),
        "long double": lambda: X.astype(np.longdouble),
        "read only": lambda: _read_only(X),
        "a NumPy matrix": lambda: np.matrix(X),
        "pandas": lambda: frame,
        "nullable": lambda: frame.convert_dtypes(),
        "polars": lambda: pl.DataFrame(X, schema=names),
        "sparse columns": lambda: frame.astype(pd.SparseDtype(float, 0.0)),
        "digits in strings": lambda: X.astype(str).astype(object),
        "a polars query": lambda: pl.DataFrame(X, schema=names).lazy(),
        "two levels of names": lambda: frame.set_axis(
            pd.MultiIndex.from_product([["a", "b"], [1, 2, 3]]), axis=1
        ),
        "one name for two columns": lambda: frame.set_axis(list("aacdef"), axis=1),
        "a masked array": lambda: np.ma.masked_array(X, mask=X > 1),
        "nothing": lambda: None,
        "None in it": lambda: nothing,
        "a missing number": lambda: np.where(X[0, 0] == X, np.nan, X),
        "infinity": lambda: np.where(X[0, 0] == X, np.inf, X),
        "complex": lambda: X.astype(complex),
        "structured": lambda: np.zeros(N_ROWS, [("a", "f8"), ("b", "f8")]),
        "dates": lambda: X.astype("M8[D]"),
        "spans": lambda: X.astype("m8[D]"),
        "strings": lambda: np.full(X.shape, "red"),
        "bytes": lambda: b"rows",
        "a string": lambda: "rows",
        "a number": lambda: 3.0,
        "one row alone": lambda: X[0],
        "three dimensions": lambda: X[:, :, None],
        "no dimension": lambda: np.array(3.0),
        "no rows": lambda: X[:0],
        "no columns": lambda: X[:, :0],
        "ragged lists": lambda: [[1.0, 2.0], [3.0]],
        "a dict": lambda: {"a": [1.0]},
        "a generator": lambda: (row for row in X),
        "a class": lambda: int,
        "too large for float32": lambda: (X * 1e200).astype(np.float64),
        "the largest numbers": lambda: np.where(X > 0, 1.7e308, -1.7e308),
    }


EQUAL_ROWS = (
    "objects",
    "lists",
    "a Fortran array",
    "every other row",
    "big-endian",
    "long double",
    "read only",
    "a NumPy matrix",
    "pandas",
    "nullable",
    "polars",
    "sparse columns",
)


def _read_only(X: np.ndarray) -> np.ndarray:
    X = X.copy()
    X.flags.writeable = False
    return X


def targets() -> dict[str, Callable[[], Any]]:
    """Makers of what may be given for the targets."""
    import pandas as pd

    y = target()
    with_none = y.astype(object)
    with_none[0] = None
    return {
        "nothing": lambda: None,
        "objects": lambda: y.astype(object),
        "None in it": lambda: with_none,
        "a missing number": lambda: np.where(y == y[0], np.nan, y),
        "infinity": lambda: np.where(y == y[0], np.inf, y),
        "too short": lambda: y[:-1],
        "empty": lambda: y[:0],
        "three dimensions": lambda: y[:, None, None],
        "a number": lambda: 1.0,
        "a string": lambda: "up",
        "complex": lambda: y.astype(complex),
        "dates": lambda: y.astype("M8[D]"),
        "structured": lambda: np.zeros(N_ROWS, [("a", "f8")]),
        "strings": lambda: np.full(N_ROWS, "up"),
        "ragged": lambda: [[1.0]] * (N_ROWS - 1) + [[1.0, 2.0]],
        "one column": lambda: y[:, None],
        "two columns": lambda: np.column_stack([y, -y]),
        "no columns": lambda: np.empty((N_ROWS, 0)),
        "sparse": lambda: sparse.csr_array(np.column_stack([y, -y])),
        "invalid sparse": lambda: _far(sparse.csr_array(np.column_stack([y, -y]))),
        "a frame": lambda: pd.DataFrame({"y": y}),
        "nullable with a gap": lambda: pd.Series([None, *range(N_ROWS - 1)], dtype="Int64"),
        "a category": lambda: pd.Series(labels()).astype("category"),
        "one value": lambda: np.ones(N_ROWS),
        "huge": lambda: y * 1e308,
        "a dict": lambda: {"y": 1},
    }


def _far(S: Any) -> Any:
    S.indices[0] = HUGE
    return S


def weights() -> dict[str, Callable[[], Any]]:
    """Makers of what may be given for the weights, none of which may be."""
    w = np.ones(N_ROWS)
    return {
        "negative": lambda: np.where(np.arange(N_ROWS) == 3, -1.0, w),
        "missing": lambda: np.where(np.arange(N_ROWS) == 3, np.nan, w),
        "infinite": lambda: np.where(np.arange(N_ROWS) == 3, np.inf, w),
        "all zero": lambda: 0 * w,
        "too short": lambda: w[:-1],
        "two columns": lambda: np.column_stack([w, w]),
        "strings": lambda: np.full(N_ROWS, "a"),
        "complex": lambda: w * 1j,
        "a string": lambda: "balanced",
        "a dict": lambda: {"up": 1},
        "sparse": lambda: sparse.csr_array(w[None]),
    }


def attacks() -> Iterator[tuple[str, str, Callable[[], Any]]]:
    """A place, what comes there, and the call."""
    for place, enter in doors():
        for name, make in dense_inputs().items():
            if not (place.endswith(".partial_fit") and name == "no rows"):
                yield place, name, partial(_entered, enter, make)
    X = rows()
    for owner, make_model in {**REGRESSORS, **CLASSIFIERS}.items():
        y = target() if owner in REGRESSORS else labels()
        for name, make in targets().items():
            yield f"{owner}.fit y", name, partial(_fitted, make_model, X, make, None)
        for name, make in weights().items():
            given = partial(_fitted, make_model, X, lambda y=y: y, make)
            yield f"{owner}.fit sample_weight", name, given


def _entered(enter: Callable[[Any], Any], make: Callable[[], Any]) -> Any:
    return enter(make())


def _fitted(make_model: Any, X: Any, make_y: Any, make_weights: Any) -> Any:
    rest = {} if make_weights is None else {"sample_weight": make_weights()}
    return _answers(make_model().fit(X, make_y(), **rest), X)
