"""Exact Shapley values of functions that are sums of products over players."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer import _core
from mercer._runtime.arrays import check_memory, n_threads, row_chunks
from mercer.maps.products import Additive, ProductForm, Products

__all__ = ["Found", "of_form"]

_BLOCK_BYTES = 2**25  # bytes of the factors of a block of rows
_FEW_NODES = 8  # that reach float32 rounding for most products of up to 50 factors
# Largest difference between the sum of a row's values and its response, in units of the largest
# response, above which the row is computed again with twice as many nodes.
_GAP = {np.dtype(np.float32): 3e-6, np.dtype(np.float64): 1e-11}


@dataclass(frozen=True)
class Found:
    """Shapley values of some rows and their precision."""

    values: NDArray[np.float64]  # (n, J, k), or (n, J, J, k) of interactions
    base: NDArray[np.float64]  # (k,) mean of the function over the background
    errors: NDArray[np.float64]  # standard errors of the values; 0 where exact


def of_form(
    form: ProductForm,
    rows: Any,
    background: Any,
    joint: bool,
    interactions: bool,
    n_jobs: int | None,
) -> Found:
    """Shapley values of a form at some rows (n, p), against a background (b, p).

    ``joint`` takes unknown inputs from one background row, over which values are averaged; else
    each comes from a row of its own. ``interactions`` returns the indices of pairs with main
    effects on the diagonal, whose sum over the second player is the value of the first.
    """
    if isinstance(form, Additive):
        values, base = _of_additive(form, rows, background)
        if not interactions:
            return _exact(values, base)
        n, d, k = values.shape
        return _with_main_effects(values, np.zeros((n, d, d, k)), base)
    threads = n_threads(n_jobs)
    parts = [_of_products(p, rows, background, joint, False, threads) for p in form]
    values, base = (np.sum(each, axis=0) for each in zip(*parts, strict=True))
    if not interactions:
        return _exact(values, base)
    pairs = sum(_of_products(p, rows, background, joint, True, threads)[0] for p in form)
    return _with_main_effects(values, np.asarray(pairs), base)


def _exact(values: NDArray, base: NDArray) -> Found:
    return Found(values, base, np.zeros_like(values))


def _with_main_effects(values: NDArray, pairs: NDArray, base: NDArray) -> Found:
    """Half of each index (n, d, d, k) on either side of the diagonal, the rest of values on it."""
    out, d = 0.5 * pairs, values.shape[1]
    out[:, np.arange(d), np.arange(d)] = values - out.sum(axis=2)
    return _exact(out, base)


def _of_additive(form: Additive, rows: Any, background: Any) -> tuple[NDArray, NDArray]:
    mean = form.parts(background).mean(axis=0)
    return form.parts(rows) - mean, mean.sum(axis=0)


def _of_products(
    products: Products, rows: Any, background: Any, joint: bool, interactions: bool, threads: int
) -> tuple[NDArray, NDArray]:
    """Values (n, J, k) and their base (k,), of one sum of products."""
    coef = products.coef
    means = list(_means(products, background, joint))
    base = np.mean([(mean.prod(axis=0) @ coef).real for mean in means], axis=0)
    first = products.factors(rows[:1])
    dtype, per_row = first.real.dtype, float(first.nbytes)
    n, (d, _, m) = rows.shape[0], first.shape
    check_memory(per_row, f"{d} x {m} factors", "explain a model of fewer rows or columns")
    shape = (d, d, coef.shape[1]) if interactions else (d + 1, coef.shape[1])
    needed = 24.0 * n * np.prod(shape)  # those of a sum of kernels, and their errors
    check_memory(needed, f"values of {n} rows and {d} columns", "explain fewer rows at a time")
    core = _core.shapley_interactions if interactions else _core.shapley_values
    of_core = [_planes(mean, dtype) for mean in means]
    core_coef = _planes(np.ascontiguousarray(coef.T), dtype)
    out = np.empty((n, *(shape if interactions else (d, coef.shape[1]))))
    for chunk in row_chunks(n, per_row, _BLOCK_BYTES):
        factors = _planes(products.factors(rows[chunk]), dtype)

        def integrated(places: NDArray, n_nodes: int, factors: NDArray = factors) -> NDArray:
            nodes, weights = _nodes(n_nodes)
            own = factors if len(places) == factors.shape[2] else factors[:, :, places].copy()
            total, part = np.zeros((2, len(places), *shape))
            for mean in of_core:
                core(own, mean, core_coef, nodes, weights, part, threads)
                total += part / len(of_core)
            return total

        count = chunk.stop - chunk.start
        out[chunk] = (
            integrated(np.arange(count), max(1, d // 2))
            if interactions
            else _accurate(integrated, count, d, base, _GAP[dtype])
        )
    return out, base


def _accurate(
    integrated: Callable[[NDArray, int], NDArray], n: int, d: int, base: NDArray, gap: float
) -> NDArray[np.float64]:
    """Values by as many nodes as make them sum to the response; players / 2 are exact."""
    all_nodes = (d + 1) // 2
    n_nodes = min(_FEW_NODES, all_nodes)
    found = integrated(np.arange(n), n_nodes)
    while n_nodes < all_nodes:
        changes = found[:, -1] - base
        gaps = np.abs(found[:, :-1].sum(axis=1) - changes).max(axis=1)
        wrong = np.flatnonzero(gaps > gap * np.abs(changes).max())
        if not len(wrong):
            break
        n_nodes = min(2 * n_nodes, all_nodes)
        found[wrong] = integrated(wrong, n_nodes)
    return found[:, :-1]


def _means(products: Products, background: Any, joint: bool) -> Iterator[NDArray]:
    """Means of the factors (J, m) over the background, or those of each of its rows."""
    n = background.shape[0]
    bytes_per_row = float(products.factors(background[:1]).nbytes)
    total: Any = 0.0
    if joint:
        what = f"factors of {n} background rows"
        check_memory(2.0 * n * bytes_per_row, what, "give fewer background rows")
    for chunk in row_chunks(n, bytes_per_row, _BLOCK_BYTES):
        factors = products.factors(background[chunk])
        if joint:
            yield from np.ascontiguousarray(np.moveaxis(factors, 1, 0))
        else:
            wide = np.result_type(factors.dtype, np.float64)
            total = total + factors.sum(axis=1, dtype=wide)
    if not joint:
        yield total / n


def _planes(numbers: NDArray, dtype: Any) -> NDArray:
    """Real numbers as one plane of a dtype, complex ones as two."""
    if numbers.dtype.kind != "c":
        return np.ascontiguousarray(numbers[None], dtype=dtype)
    return np.ascontiguousarray(np.stack([numbers.real, numbers.imag]), dtype=dtype)


def _nodes(count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Nodes and weights of Gauss and Legendre on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return np.ascontiguousarray((nodes + 1) / 2), np.ascontiguousarray(weights / 2)
