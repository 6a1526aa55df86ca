"""Bins of rows and products with them, in Triton: one pass over rows, grid after grid.

Memory is the limit of products: a row brings the bytes of its codes, R or 2 R, and as many entries
of w come from the cache. Keys and hashed codes are made of d rounded products of float64 a code:
what bounds them is arithmetic, from two inputs on.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from mercer.designs.on_device.bins import Grids

__all__ = ["fused_codes", "fused_keys", "fused_matvec", "fused_sums"]

_ROWS = 256  # of a program
_MOST = 8  # columns of vectors of a program
_GRIDS = 16  # of a program that makes codes
_SUMS = 2**20  # of all copies, so that few programs add to the same one
_COPIES = 64  # at most


def fused_keys(columns: Any, grids: Grids) -> Any:
    """``box_keys`` of rows (d, n): a tensor (G, n) of int64."""
    out = grids.low.new_empty((len(grids), columns.shape[1]))
    _hash(columns, grids, out, 0)
    return out


def fused_codes(columns: Any, grids: Grids, n_columns: int, out: Any) -> None:
    """``hashed_codes`` of rows (d, n) into ``out`` (G, n)."""
    _hash(columns, grids, out, n_columns)


def _hash(columns: Any, grids: Grids, out: Any, n_columns: int) -> None:
    d, n = columns.shape
    if not n or not len(grids):
        return
    low, high = (half.int() for half in (_signed(grids.low), _signed(grids.high)))
    _bin[(triton.cdiv(n, _ROWS), triton.cdiv(len(grids), _GRIDS))](
        columns,
        grids.inverse_widths,
        grids.shifts,
        low,
        high,
        out,
        n,
        d,
        len(grids),
        n_columns,
        out.stride(0),
        ROWS=_ROWS,
        GRIDS=_GRIDS,
        HASHED=n_columns > 0,
        enable_fp_fusion=False,  # every step of a code is rounded, as in the core
    )


def _signed(half: Any) -> Any:
    """Numbers below 2**32 as int32 has them."""
    return ((half + 2**31) & 0xFFFFFFFF) - 2**31


def fused_matvec(codes: Any, starts: Any, w: Any) -> Any:
    """The binned matrix of ones times w (D, k): a tensor (n, k) in its dtype."""
    n, k = codes.shape[1], w.shape[1]
    out = w.new_empty((n, k))
    for first in range(0, k, _MOST):
        _run(_gather, codes, starts, w[:, first : first + _MOST], out[:, first:], k)
    return out


def fused_sums(codes: Any, starts: Any, v: Any, n_columns: int) -> Any:
    """The transpose of the binned matrix of ones times whole numbers v (n, k): (D, k) of int64.

    Whole numbers may be added in any order. Programs that run side by side add to different copies
    of the sums while these are few.
    """
    k = v.shape[1]
    copies = max(1, min(_COPIES, _SUMS // max(1, n_columns * k)))
    out = v.new_zeros((copies, n_columns, k))
    sizes = k, n_columns * k, copies
    for first in range(0, k, _MOST):
        _run(_scatter, codes, starts, v[:, first : first + _MOST], out[:, :, first:], *sizes)
    return out.sum(dim=0)


def _run(kernel: Any, codes: Any, starts: Any, vectors: Any, out: Any, *sizes: int) -> None:
    """Run ``_gather`` or ``_scatter`` for some columns of vectors; ``sizes`` are of all of them."""
    n_grids, n = codes.shape
    if n:
        width = vectors.shape[1]
        kernel[(triton.cdiv(n, _ROWS),)](
            *(codes, starts, vectors.contiguous(), out),
            *(n, n_grids, width, codes.stride(0), codes.stride(1), *sizes),
            ROWS=_ROWS,
            WIDTH=triton.next_power_of_2(width),
            MASK=(1 << 8 * codes.element_size()) - 1,
            enable_fp_fusion=False,
        )


@triton.jit
def _bin(
    x, inverse_widths, shifts, low, high, out, n, d, n_grids, n_columns, stride,
    ROWS: tl.constexpr, GRIDS: tl.constexpr, HASHED: tl.constexpr,
):  # fmt: skip
    """Keys or hashed codes (G, n) of rows x (d, n), for one block of rows and some grids."""
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    first = tl.program_id(1) * GRIDS
    own_out = out + tl.program_id(1).to(tl.int64) * GRIDS * stride + rows
    for g in range(first, tl.minimum(first + GRIDS, n_grids)):
        inputs = x + rows
        lows = tl.zeros((ROWS,), dtype=tl.int32)
        highs = tl.zeros((ROWS,), dtype=tl.int32)
        for j in range(d):
            own = tl.load(inputs, mask=rows < n, other=0.0)
            inputs += n
            place = own.to(tl.float64) * tl.load(inverse_widths + g * d + j)
            place = place - tl.load(shifts + g * d + j)
            place = tl.minimum(tl.maximum(place, -2147483648.0), 2147483647.0)
            code = tl.floor(place).to(tl.int32)
            lows += code * tl.load(low + g * d + j)
            highs += code * tl.load(high + g * d + j)
        if HASHED:
            mixed = lows.to(tl.uint32, bitcast=True)
            mixed = (mixed ^ (mixed >> 16)) * 0x7FEB352D
            mixed = mixed ^ (mixed >> 15) ^ highs.to(tl.uint32, bitcast=True)
            value = (mixed.to(tl.int64) * n_columns) >> 32
        else:
            value = (highs.to(tl.int64) << 32) | (lows.to(tl.int64) & 0xFFFFFFFF)
        tl.store(own_out, value, mask=rows < n)
        own_out += stride


@triton.jit
def _gather(
    codes, starts, w, out, n, n_grids, k, stride, step, width_of_out,
    ROWS: tl.constexpr, WIDTH: tl.constexpr, MASK: tl.constexpr,
):  # fmt: skip
    """out (n, k) = sums over grids of the rows of w (D, k) that the codes name."""
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    outputs = tl.arange(0, WIDTH)
    total = tl.zeros((ROWS, WIDTH), dtype=w.dtype.element_ty)
    own_codes = codes + rows * step
    for g in range(n_grids):
        start = tl.load(starts + g)
        size = tl.load(starts + g + 1) - start
        own = tl.load(own_codes, mask=rows < n, other=0).to(tl.int64) & MASK
        own_codes += stride
        there = (rows < n) & (own < size)
        entries = tl.load(
            w + (start + own)[:, None] * k + outputs[None, :],
            mask=there[:, None] & (outputs < k)[None, :],
            other=0.0,
        )
        total += entries
    tl.store(
        out + rows[:, None] * width_of_out + outputs[None, :],
        total,
        mask=(rows < n)[:, None] & (outputs < k)[None, :],
    )


@triton.jit
def _scatter(
    codes, starts, v, out, n, n_grids, k, stride, step, width_of_out, copy_size, copies,
    ROWS: tl.constexpr, WIDTH: tl.constexpr, MASK: tl.constexpr,
):  # fmt: skip
    """Add rows of v (n, k) to the sums (copies, D, k) that the codes name."""
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    outputs = tl.arange(0, WIDTH)
    use = (rows < n)[:, None] & (outputs < k)[None, :]
    values = tl.load(v + rows[:, None] * k + outputs[None, :], mask=use, other=0)
    sums = out + (tl.program_id(0) % copies).to(tl.int64) * copy_size
    own_codes = codes + rows * step
    for g in range(n_grids):
        start = tl.load(starts + g)
        size = tl.load(starts + g + 1) - start
        own = tl.load(own_codes, mask=rows < n, other=0).to(tl.int64) & MASK
        own_codes += stride
        there = use & (own < size)[:, None]
        places = (start + own)[:, None] * width_of_out + outputs[None, :]
        tl.atomic_add(sums + places, values, mask=there, sem="relaxed")
