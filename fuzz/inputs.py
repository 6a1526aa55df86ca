"""Rows, targets and weights, from plain to absurd."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from scipy import sparse

import _hostile_sparse  # of tests/

Draw = Any

_SPARSE = ("csr", "csc", "coo", "bsr", "lil", "dok", "dia")
_DTYPES = ("f8", "f4", "f2", "i8", "i2", "u1", "?", ">f8", ">i4", "g", "O", "c16")


def plain(draw: Draw) -> NDArray:
    """A tame table: finite, of moderate size, often with equal rows and zeros."""
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    n = draw(st.sampled_from([1, 2, 3, 5, 12, 40, 90]))
    X = rng.normal(size=(n, draw(st.sampled_from([1, 2, 3, 3, 3, 7]))))
    X *= 10.0 ** draw(st.integers(-3, 3))
    change = draw(st.sampled_from(["none", "none", "rounded", "zeros", "equal", "column"]))
    if change == "rounded":
        X = np.round(X)
    elif change == "zeros":
        X[rng.random(X.shape) < 0.6] = 0.0
    elif change == "equal":
        X[:] = X[rng.integers(0, max(1, n // 3), n)]
    elif change == "column":
        X[:, 0] = X[0, 0]
    return X.astype(draw(st.sampled_from(["f8", "f4"])))


def odd(draw: Draw) -> tuple[Any, str]:
    """Anything that somebody might pass for rows, and how it was made."""
    kind = draw(st.sampled_from(["spoilt", "typed", "any", "sparse", "invalid", "frame", "held"]))
    return _ODD[kind](draw)


def _spoilt(draw: Draw) -> tuple[Any, str]:
    """A tame table with some entries that are not."""
    X = plain(draw)
    small, large = np.finfo(X.dtype).smallest_subnormal, np.finfo(X.dtype).max
    values = [np.nan, np.inf, -np.inf, large, -large, large / 4, large**0.5, small, -0.0, 2.0**31]
    value = draw(st.sampled_from(values))
    where = draw(st.sampled_from(["one", "row", "column", "all"]))
    i, j = draw(st.integers(0, X.shape[0] - 1)), draw(st.integers(0, X.shape[1] - 1))
    place = {"one": (i, j), "row": (i,), "column": (slice(None), j), "all": ()}[where]
    X[place] = value
    return X, f"{X.dtype} {X.shape} with {value} in {where} at {i, j}"


def _typed(draw: Draw) -> tuple[Any, str]:
    """A tame table in another dtype."""
    dtype = draw(st.sampled_from(_DTYPES))
    X = np.clip(np.abs(plain(draw)), 0, 100).astype(dtype)
    return laid_out(draw, X)


def _any(draw: Draw) -> tuple[Any, str]:
    """What hypothesis makes of a dtype and a shape."""
    dtype = draw(st.one_of(hnp.scalar_dtypes(), st.just(np.dtype("f8"))))
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=6))
    X = draw(hnp.arrays(dtype, shape))
    return X, f"{X.dtype} array {X.tolist()!r:.200}"


def _sparse(draw: Draw) -> tuple[Any, str]:
    X = plain(draw)
    name, kind = draw(st.sampled_from(_SPARSE)), draw(st.sampled_from(["array", "matrix"]))
    S = getattr(sparse, f"{name}_{kind}")(X)
    if name in ("csr", "csc") and draw(st.booleans()):
        S.indices, S.indptr = S.indices.astype("i8"), S.indptr.astype("i8")
    return S, f"{name}_{kind} of {X.shape}"


def _invalid(draw: Draw) -> tuple[Any, str]:
    """A sparse matrix whose parts contradict each other, or whose flags lie."""
    makers = {**dict(_hostile_sparse.invalid_sparse()), **_hostile_sparse.unusual_sparse()}
    name = draw(st.sampled_from(sorted(makers)))
    return makers[name](), name


def _frame(draw: Draw) -> tuple[Any, str]:
    X = plain(draw)
    names = [f"x{j}" for j in range(X.shape[1])]
    frame = pd.DataFrame(X, columns=names)
    extra = draw(st.sampled_from(["none", "text", "category", "date", "missing", "same name"]))
    if extra == "text":
        frame["text"] = (
            ["a", "b c"][: len(X)] * (len(X) // 2) + ["a"] * (len(X) - 2 * (len(X) // 2))
            if len(X) > 1
            else ["a"]
        )
    elif extra == "category":
        frame["kind"] = pd.Categorical.from_codes(np.arange(len(X)) % 2, ["u", "v"])
    elif extra == "date":
        frame["day"] = pd.date_range("2020-01-01", periods=len(X))
    elif extra == "missing":
        frame.loc[0, "x0"] = np.nan
        frame = frame.convert_dtypes()
    elif extra == "same name" and X.shape[1] > 1:
        frame.columns = ["x0"] * X.shape[1]
    elif draw(st.booleans()):
        return pl.from_pandas(frame), f"polars frame of {X.shape}"
    return frame, f"pandas frame of {X.shape} with {extra}"


def _held(draw: Draw) -> tuple[Any, str]:
    """What holds numbers and is no array."""
    X = plain(draw)
    ragged = [[0.0] * (i % 3) for i in range(len(X))]
    masked = np.ma.masked_greater(X, float(np.median(X)))
    held = [X.tolist(), ragged, np.matrix(X), masked, "rows", None, {}, iter(X), X[0], 3.0, [X, X]]
    value = draw(st.sampled_from(held))
    return value, f"{type(value).__name__} {value!r:.200}"


_ODD = {
    "spoilt": _spoilt,
    "typed": _typed,
    "any": _any,
    "sparse": _sparse,
    "invalid": _invalid,
    "frame": _frame,
    "held": _held,
}


def laid_out(draw: Draw, X: NDArray) -> tuple[NDArray, str]:
    """The same numbers, lying otherwise in memory."""
    how = draw(st.sampled_from(["C", "F", "strided", "reversed", "read-only", "unaligned", "wide"]))
    return relaid(X, how), f"{X.dtype} {X.shape}, {how}"


def relaid(X: NDArray, how: str) -> NDArray:
    """A copy of X that lies in memory as ``how`` says."""
    if how == "strided":
        wide = np.zeros((2 * X.shape[0], 3 * X.shape[1]), X.dtype)
        wide[::2, ::3] = X
        return wide[::2, ::3]
    if how == "reversed":
        return X[::-1, ::-1].copy()[::-1, ::-1]
    if how == "read-only":
        X = X.copy()
        X.flags.writeable = False
        return X
    if how == "unaligned" and X.dtype.kind not in "O":
        held = np.zeros(X.nbytes + 1, np.uint8)
        out = held[1:].view(X.dtype).reshape(X.shape)
        out[:] = X
        return out
    if how == "wide":
        return np.hstack([X, X])[:, : X.shape[1]]
    return X.copy(order="F" if how == "F" else "C")


def targets(draw: Draw, n: int, kind: str, tame: bool) -> tuple[Any, str]:
    """Targets for n rows."""
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    if kind == "classification":
        k = draw(st.sampled_from([2, 2, 3, 1]))
        labels = np.arange(n) % k
        rng.shuffle(labels)
        how = draw(st.sampled_from(["int", "str", "float", "bool", "object"]))
        y = {
            "int": labels * 3 - 1,
            "str": np.array(["no", "yes", "ünsure"])[labels],
            "float": labels.astype(float),
            "bool": labels > 0,
            "object": np.array(["no", "yes", "other"], dtype=object)[labels],
        }[how]
    else:
        k = draw(st.sampled_from([1, 1, 1, 2]))
        y = rng.normal(size=n if k == 1 else (n, k)) * 10.0 ** draw(st.integers(-3, 3))
        how = f"{k} outputs"
    if tame:
        return y, how
    spoilt = draw(
        st.sampled_from(
            ["no", "no", "no", "constant", "NaN", "huge", "short", "column", "none", "text"]
        )
    )
    if spoilt == "constant":
        y[:] = y[0]
    elif spoilt in ("NaN", "huge") and y.dtype.kind == "f":
        y[-1] = np.nan if spoilt == "NaN" else 1e300
    elif spoilt == "short":
        y = y[:-1]
    elif spoilt == "column":
        y = y.reshape(n, -1)
    elif spoilt == "none":
        return None, "none"
    elif spoilt == "text":
        y = np.array([f"t{i}" for i in range(n)])
    return y, f"{how}, spoilt: {spoilt}"


def weights(draw: Draw, n: int) -> tuple[NDArray | None, str]:
    """Weights of n rows, mostly none."""
    how = draw(
        st.sampled_from(
            ["none"] * 6 + ["ones", "some zero", "zero", "negative", "NaN", "huge", "tiny", "short"]
        )
    )
    w = np.random.default_rng(n).uniform(0.5, 2.0, n)
    if how == "none":
        return None, how
    if how == "some zero":
        w[: n // 2] = 0.0
    elif how == "short":
        w = w[:-1]
    elif how != "ones":
        w = w * {"zero": 0.0, "negative": -1.0, "NaN": np.nan, "huge": 1e308, "tiny": 5e-324}[how]
    else:
        w[:] = 1.0
    return w, how
