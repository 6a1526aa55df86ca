"""Valid calls of every function of the core, whose arguments tests break one by one.

`calls()` gives them with small arrays. Each says which arrays it writes, which counts it repeats
its work by (a huge one is no error: it takes for ever) and which values the core takes on trust.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from mercer import _core

N, D, GRIDS, BINS = 70, 5, 6, 9
CSR = ("data", "indices", "indptr", "d")


@dataclass(frozen=True)
class Call:
    """A function of the core by its name, and what makes arguments for it.

    `make` gives new arguments each time, by name and in order; the parts of a CSR matrix, which are
    one argument X, by their own names. `of` makes the object that a method belongs to.
    """

    name: str
    make: Callable[[], dict[str, Any]]
    writes: frozenset[str] = frozenset()
    repeats: frozenset[str] = frozenset()
    trusts: frozenset[str] = frozenset()
    of: Callable[[], Any] | None = field(default=None, repr=False)
    takes_csr: bool = False

    def function(self) -> Callable[..., Any]:
        if self.of is not None:
            return getattr(self.of(), self.name.rpartition(".")[2])
        function: Any = _core
        for part in self.name.split("."):
            function = getattr(function, part)
        return function

    def packed(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments as the core takes them: the parts of a CSR matrix as one."""
        if not self.takes_csr:
            return arguments
        packed: dict[str, Any] = {}
        for name, value in arguments.items():
            if name not in CSR:
                packed[name] = value
            elif "X" not in packed:
                packed["X"] = tuple(arguments[part] for part in CSR)
        return packed

    def run(self, arguments: dict[str, Any]) -> Any:
        return self.function()(*self.packed(arguments).values())


def names() -> set[str]:
    """Every function, class, method and property of the core."""
    found = set()
    for name, item in vars(_core).items():
        if name.startswith("__"):
            continue
        found.add(name)
        if inspect.isclass(item):
            found |= {f"{name}.{member}" for member in vars(item) if not member.startswith("_")}
    return found


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)


def _grids(d: int, n_grids: int = GRIDS) -> dict[str, Any]:
    rng = _rng()
    return {
        "inverse_widths": rng.uniform(0.5, 2.0, (n_grids, d)),
        "shifts": rng.uniform(size=(n_grids, d)),
        "multipliers": rng.integers(0, 2**63, (n_grids, d)).astype(np.uint64),
    }


def _rows(dtype: Any = np.float64, n: int = N) -> np.ndarray:
    return _rng().normal(size=(n, D)).astype(dtype)


def _csr(dtype: Any = np.float64, index: Any = np.int32) -> dict[str, Any]:
    X = sparse.random_array(
        (N, D), density=0.5, format="csr", random_state=_rng(), dtype=np.float64
    )
    X.sort_indices()
    indices, indptr = X.indices.astype(index), X.indptr.astype(index)
    return {"data": X.data.astype(dtype), "indices": indices, "indptr": indptr, "d": D}


def _codes(dtype: Any = np.uint8, n: int = N, missing: bool = False) -> dict[str, Any]:
    """With `missing`, the last grid has no columns."""
    codes = _rng().integers(0, BINS, (GRIDS, n)).astype(dtype)
    offsets = np.arange(GRIDS + 1, dtype=np.int64) * BINS
    if missing:
        offsets[-2] = offsets[-1]
    return {"codes": codes, "offsets": offsets}


def _lists(n: int = N) -> dict[str, Any]:
    columns = sparse.random_array((n, 4), density=0.4, format="csc", random_state=_rng())
    columns.sort_indices()
    return {
        "starts": columns.indptr.astype(np.int64),
        "rows": columns.indices.astype(np.uint32),
        "values": columns.data.copy(),
        "scale": 0.5,
    }


def _table() -> Any:
    table = _core.BinTable(GRIDS)
    codes = np.empty((GRIDS, N), np.uint16)
    table.insert(0, _rows(), *_grids(D).values(), codes, 1)
    return table


def _binning() -> Iterator[Call]:
    writes = frozenset({"codes"})
    for dtype, code in ((np.float32, np.uint8), (np.float64, np.uint32)):

        def dense(dtype=dtype) -> dict[str, Any]:
            return {"X": _rows(dtype)}

        def csr(dtype=dtype, code=code) -> dict[str, Any]:
            return _csr(dtype, np.int32 if code == np.uint8 else np.int64)

        def codes(code=code) -> np.ndarray:
            return np.empty((GRIDS, N), code)

        for data in (dense, csr):
            for method in ("insert", "lookup"):
                yield Call(
                    f"BinTable.{method}",
                    lambda data=data, codes=codes: {
                        "first_grid": 0, **data(), **_grids(D), "codes": codes(), "n_threads": 1
                    },
                    writes,
                    of=_table,
                    takes_csr=data is csr,
                )  # fmt: skip
            yield Call(
                "bin_hashed",
                lambda data=data, codes=codes: {
                    **data(), **_grids(D), "n_columns": 200, "codes": codes(), "n_threads": 2
                },
                writes,
                takes_csr=data is csr,
            )  # fmt: skip

    def few() -> dict[str, Any]:
        return {
            "first_grid": 2, "X": _rows(n=3), **_grids(D, 2), "codes": np.empty((2, 3), np.uint16),
            "n_threads": 1,
        }  # fmt: skip

    yield Call("BinTable.insert", few, writes, of=_table)
    for data, k in ((_rows, ()), (csr, (3,))):
        yield Call(
            "BinTable.add_matvec",
            lambda data=data, k=k: {
                "first_grid": 0, **(data() if data is csr else {"X": data()}), **_grids(D),
                "w": np.ones((int(_table().n_bins.sum()), *k), _rows().dtype),
                "out": np.zeros((N, *k), _rows().dtype), "n_threads": 2,
            },
            frozenset({"out"}),
            of=_table,
            takes_csr=data is csr,
        )  # fmt: skip
    yield Call("BinTable", lambda: {"n_grids": 3})
    yield Call("BinTable.n_bins", dict, of=lambda: _Property(_table()))
    yield Call("BinTable.keys", dict, of=_table)
    keys = lambda: {"keys": _table().keys(), "n_bins": _table().n_bins, "n_threads": 1}  # noqa: E731
    yield Call("BinTable.from_keys", keys)


class _Property:
    """Reads a property as if it were called."""

    def __init__(self, item: Any):
        self.item = item

    def __getattr__(self, name: str) -> Any:
        return lambda: getattr(self.item, name)


def _random() -> Iterator[Call]:
    for name in ("random_bits", "random_uniform"):
        yield Call(
            name,
            lambda: {"key": 3, "slot": 4, "streams": np.arange(70), "size": 5, "n_threads": 1},
        )
    yield Call("cpu_info", dict)
    yield Call("flush_denormals", lambda: {"flush": False})


def _products() -> Iterator[Call]:
    for code, dtype, missing, k in (
        (np.uint8, np.float32, False, None),
        (np.uint16, np.float64, False, 3),
        (np.uint32, np.float64, True, None),
        (np.uint8, np.float32, True, 19),
    ):
        tail = () if k is None else (k,)
        for name, operand, inside, outside in (
            ("binned_matvec", "w", GRIDS * BINS, N),
            ("binned_rmatvec", "v", N, GRIDS * BINS),
            ("binned_gram_matvec", "v", N, N),
        ):
            yield Call(
                name,
                lambda code=code, dtype=dtype, tail=tail, operand=operand, inside=inside,
                outside=outside, missing=missing: {
                    **_codes(code, missing=missing),
                    operand: _rng().normal(size=(inside, *tail)).astype(dtype),
                    "out": np.empty((outside, *tail), dtype),
                    "scale": 0.5, "missing": missing, "n_threads": 1,
                },
                frozenset({"out"}),
                trusts=frozenset({"missing"} if missing else {"codes", "offsets", "missing"}),
            )  # fmt: skip
        yield Call("bin_sizes", lambda code=code: {**_codes(code), "n_threads": 1})
        yield Call(
            "bit_columns",
            lambda code=code, missing=missing: {
                **_codes(code),
                "columns": np.array([0, 3, 8, 9, 40, 53]),
                "order": np.arange(N, dtype=np.uint32)[::-1].copy() if missing else None,
                "out": np.empty((6, 8), np.uint64), "n_threads": 1,
            },
            frozenset({"out"}),
        )  # fmt: skip
        yield Call(
            "bin_lists",
            lambda code=code, missing=missing: {
                **_codes(code),
                "columns": np.array([0, 3, 8, 9, 40, 53]),
                "order": np.arange(N, dtype=np.uint32)[::-1].copy() if missing else None,
                "starts": np.empty(7, np.int64), "rows": np.empty(GRIDS * N, np.uint32),
                "n_threads": 1,
            },
            frozenset({"starts", "rows"}),
        )  # fmt: skip
    words = lambda n: _rng().integers(0, 2**63, (n, 16)).astype(np.uint64)  # noqa: E731
    yield Call(
        "bit_products",
        lambda: {
            "left": words(5), "right": words(70), "weights": np.array([2, 3], np.uint32),
            "scale": 0.5, "out": np.empty((5, 70)), "n_threads": 1,
        },
        frozenset({"out"}),
    )  # fmt: skip


def _cosines() -> Iterator[Call]:
    for dtype in (np.float32, np.float64):

        def common(dtype: Any = dtype) -> dict[str, Any]:
            return {"X": _rows(dtype), "frequencies": _rng().normal(size=(33, D)).astype(dtype)}

        def phases(size: int = 33, dtype: Any = dtype) -> np.ndarray:
            return _rng().uniform(size=size).astype(dtype)

        def empty(*shape: int, dtype: Any = dtype) -> np.ndarray:
            return np.empty(shape, dtype)

        out = frozenset({"out"})
        yield Call("cosine_block", lambda common=common, phases=phases, empty=empty: {
            **common(), "phases": phases(), "scale": 0.5, "out": empty(N, 33), "n_threads": 1
        }, out)  # fmt: skip
        yield Call("cosine_product", lambda common=common, phases=phases: {
            **common(), "phases": phases(), "scale": 0.5, "weights": _rng().normal(size=(33, 2)),
            "sums": np.zeros((N, 2)), "n_threads": 2,
        }, frozenset({"sums"}))  # fmt: skip
        yield Call("cosine_pairs", lambda common=common, empty=empty: {
            **common(), "scale": 0.5, "out": empty(N, 66), "n_threads": 1
        }, out)  # fmt: skip
        yield Call("cosine_inplace", lambda phases=phases, dtype=dtype: {
            "values": _rows(dtype), "phases": phases(D), "scale": 0.5, "n_threads": 1
        }, frozenset({"values"}))  # fmt: skip
        yield Call("cosine_pairs_from", lambda empty=empty, dtype=dtype: {
            "arguments": _rows(dtype), "scale": 0.5, "out": empty(N, 2 * D), "n_threads": 1
        }, out)  # fmt: skip
        a = frozenset({"a"})
        yield Call("hadamard", lambda dtype=dtype: {
            "a": _rng().normal(size=(3, 64)).astype(dtype), "n_threads": 1}, a)  # fmt: skip
        yield Call("hadamard_columns", lambda dtype=dtype: {
            "a": _rng().normal(size=(64, 3)).astype(dtype), "n_threads": 1}, a)  # fmt: skip
        for paired in (False, True):
            yield Call("fastfood", lambda dtype=dtype, paired=paired, phases=phases, empty=empty: {
                "X": _rows(dtype), "factors": _rng().normal(size=(2, D)).astype(dtype),
                "order": np.array([_rng().permutation(8)] * 2, np.uint32),
                "gains": _rng().normal(size=(2, 8)).astype(dtype), "lengths": phases(13),
                "phases": None if paired else phases(13), "scale": 0.5,
                "out": empty(N, 26 if paired else 13), "n_threads": 1,
            }, out)  # fmt: skip


def _net(p: int, n: int = N) -> dict[str, Any]:
    return {
        "l1": np.full(p, 1e-3), "l2": np.full(p, 1e-3), "curvature": np.ones(p),
        "w": np.zeros(p), "slope": _rng().normal(size=n), "row_curvature": np.ones(n),
    }  # fmt: skip


def _descent() -> Iterator[Call]:
    moved, sweeps = frozenset({"w", "slope"}), frozenset({"n_sweeps"})
    yield Call("descend_gram", lambda: {
        "hessian": np.eye(4), "l1": np.ones(4), "l2": np.ones(4), "w": np.zeros(4),
        "gradient": np.arange(4.0), "n_sweeps": 3, "tol": 0.0,
    }, frozenset({"w", "gradient"}), sweeps)  # fmt: skip
    for order in (None, np.array([3, 0])):
        k = 4 if order is None else 2
        yield Call("list_product", lambda order=order, k=k: {
            **_lists(), "order": order, "w": np.ones(k), "out": np.zeros(N),
        }, frozenset({"out"}))  # fmt: skip
        yield Call("list_sums", lambda order=order, k=k: {
            **_lists(), "order": order, "v": np.ones(N), "out": np.zeros(k),
        }, frozenset({"out"}))  # fmt: skip
    yield Call("face_step", lambda: {
        **_lists(), "order": np.array([3, 0]), "l2": 0.1, "centred": True, "diagonal": np.ones(2),
        "slope": np.ones(2), "row_curvature": np.ones(N), "n_turns": 3, "fall": 0.0,
        "step": np.zeros(2), "moves": np.zeros(N),
    }, frozenset({"step", "moves"}), frozenset({"n_turns"}))  # fmt: skip
    for n in (N, 6000):
        yield Call("descend_columns", lambda n=n: {
            **_lists(n), "groups": np.array([0, 1, 2, 4]), "order": np.array([3, 2, 1, 0]),
            **_net(4, n), "n_sweeps": 3, "tol": 0.0, "n_threads": 2,
        }, moved, sweeps)  # fmt: skip
    yield Call("descend_async", lambda: {
        **_lists(), **_net(4), "n_sweeps": 3, "n_threads": 2
    }, moved, sweeps)  # fmt: skip


def _steps() -> Iterator[Call]:
    lists = lambda: {**_lists(), "n_rows": N}  # noqa: E731
    views: dict[str, Callable[[], dict[str, Any]]] = {
        "dense": lambda: {"rows": _rows()[:, :4].copy()},
        "sparse": lambda: {
            **{name: _csr()[name] for name in ("data", "indices")},
            "indptr": _csr()["indptr"].astype(np.int64),
            "n_columns": D,
        },
        "codes": lambda: {
            **_codes(), "codes": _codes()["codes"].T.copy(), "scale": 0.4, "single": True
        },
        "kept_dense": lambda: {"columns": _rows()[:, :4].T.copy()},
        "kept_lists": lists,
    }  # fmt: skip
    for dtype in (np.float32, np.uint16):
        yield Call("AsyncSteps.dense", lambda dtype=dtype: {"rows": np.ones((N, 4), dtype)})
    for name, make in views.items():

        def view(name: str = name, make: Callable[[], dict[str, Any]] = make) -> Any:
            return getattr(_core.AsyncSteps, name)(*make().values())

        p = {"dense": 4, "sparse": D, "codes": GRIDS * BINS, "kept_dense": 4, "kept_lists": 4}[name]
        yield Call(f"AsyncSteps.{name}", make)

        def objective(p: int = p, kept: bool = name.startswith("kept")) -> dict[str, Any]:
            return {
                "y": np.ones(N), "weights": np.ones(N), "loss": "huber", "parameter": 1.0,
                "w": np.zeros(p + 1), "slopes": np.zeros(N), "u": np.zeros(N) if kept else None,
            }  # fmt: skip

        writes = frozenset({"w", "slopes", "u"})
        slopes = lambda objective=objective: {  # noqa: E731
            **objective(), "n_threads": 2, "rows": None
        }  # fmt: skip
        yield Call("AsyncSteps.slopes", slopes, writes, of=view)
        q = p + 1
        no_hessian = {"rows": None, "matrix": None, "anchor": None, "scale": 1.0}
        hessian = {"rows": np.ones(N), "matrix": np.eye(q, dtype=np.float32), "scale": 2.0}
        for given in (no_hessian, {**no_hessian, **hessian, "anchor": np.zeros(q)}):
            yield Call("AsyncSteps.walk", lambda objective=objective, q=q, given=given: {
                **objective(), "gradient": np.ones(q), "steps": np.full(q, 0.1), "l1": np.zeros(q),
                "l2": np.zeros(q), "key": 1, "slot": 2, "first": 3, "count": 40, "batch": 3,
                "width": 2, "n_threads": 2, **given,
            }, writes, frozenset({"count"}), of=view)  # fmt: skip

    def drawn() -> Any:
        return _core.AsyncSteps.dense(_rows()[:, :4].copy())

    yield Call("AsyncSteps.draw_from", _lists, of=drawn)
    yield Call("AsyncSteps", dict)
    yield Call("loss_slopes", lambda: {
        "loss": "logistic", "parameter": 1.0, "u": np.ones(N), "y": np.ones(N),
        "out": np.empty(N),
    }, frozenset({"out"}))  # fmt: skip


def _texts() -> Iterator[Call]:
    yield Call("token_hashes", lambda: {
        "characters": np.tile(np.array([97, 98, 32, 99], np.uint32), 100),
        "starts": np.array([0, 7, 7, 400]), "in_words": np.ones(128, np.uint8),
        "skipped": np.array([3, 5], np.uint64), "n_threads": 2,
    })  # fmt: skip
    yield Call("hashed_runs", lambda: {
        "tokens": np.arange(50, dtype=np.uint64), "starts": np.array([0, 20, 20, 50]),
        "orders": np.array([1, 3]), "key": np.array([7, 9], np.uint64), "n_columns": 30,
        "with_signs": True, "normalize": True, "n_threads": 2,
    })  # fmt: skip


def _shapley() -> Iterator[Call]:
    d, n, m, k = 3, 4, 9, 2
    for planes, dtype in ((1, np.float32), (2, np.float64)):
        for name, shape in (("values", (n, d + 1, k)), ("interactions", (n, d, d, k))):
            yield Call(f"shapley_{name}", lambda planes=planes, dtype=dtype, shape=shape: {
                "factors": np.full((planes, d, n, m), 0.5, dtype),
                "means": np.full((planes, d, m), 0.25, dtype),
                "coef": np.ones((planes, k, m), dtype), "nodes": np.array([0.2, 0.8]),
                "weights": np.array([0.5, 0.5]), "out": np.zeros(shape), "n_threads": 2,
            }, frozenset({"out"}))  # fmt: skip


def calls() -> list[Call]:
    """All of them."""
    from _core_calls_duals import duals
    from _core_calls_kernels import fixed, kernels
    from _core_calls_leaves import leaves, trees

    groups = (_random, _binning, _products, _cosines, kernels, fixed, leaves, trees, _descent)
    return [call for group in (*groups, _steps, duals, _texts, _shapley) for call in group()]
