"""Products with kernel matrices that never leave the chip, in Triton.

A program takes some rows, walks over the others, makes a tile of the kernel in registers and adds
its product with the weights. Squared distances of many inputs come from inner products on tensor
cores, where a number is the sum of two of 16 bits, and from differences where an expanded square
has cancelled. Kernels that take every coordinate by itself, and rows of few inputs, are computed
from differences on the vector units.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from mercer.designs.on_device.entries import CANCELLED, ROOT_SHARE, KernelOf, Rows

__all__ = ["fused_product"]

_COLUMNS = 64  # of a tile
_INPUTS = 64  # of a tile that are read together
_FEW_INPUTS = 12  # up to which differences cost about as much as inner products and their check
_MOST_WEIGHTS = 64  # columns of weights of one program
_FLUSH = 64  # tiles whose products are summed in float32, before the sum goes on in float64
_PROGRAMS = 1024  # that keep a GPU busy
_OPTIONS = {"num_warps": 4, "num_stages": 2, "enable_fp_fusion": True}
_LOG2_E = tl.constexpr(1.4426950408889634)

_NAMES = (
    *("sqeuclidean", "gaussian", "exponential", "matern_3_2", "matern_5_2"),
    *("rational", "rational_power", "cityblock", "laplacian", "cauchy"),
)
_UNBOUNDED = ("sqeuclidean", "cityblock")  # whose entries may be too large for 16 bits
_KINDS = {name: number for number, name in enumerate(_NAMES)}


def fused_product(kernel: KernelOf, left: Rows, right: Rows, w: Any) -> Any:
    """The kernel of rows (n, d) against others (m, d), times w (m, k): a tensor (n, k) of float64.

    Rows and weights are of float32, on one device. Rows are repeated up to whole tiles, so that no
    load looks where they end; the weights of repeated ones are zero.
    """
    out = w.new_zeros((len(left), w.shape[1]), dtype=kernel.scale.dtype)
    if not (len(left) and len(right)):
        return out
    for first in range(0, w.shape[1], _MOST_WEIGHTS):
        columns = slice(first, first + _MOST_WEIGHTS)
        out[:, columns] = _of_few_columns(kernel, left, right, w[:, columns])
    return out


def _of_few_columns(kernel: KernelOf, left: Rows, right: Rows, w: Any) -> Any:
    (n, d), (m, k) = left.given.shape, w.shape
    direct = kernel.is_direct or d <= _FEW_INPUTS
    tall = 128 if direct and k == 1 else 64  # rows of a tile, as many as registers allow
    whole, rest = _powers_of_two(kernel.scale)
    x = _padded(left.given * whole, tall).T.contiguous()
    y = _padded(right.given * whole, _COLUMNS).T.contiguous()
    inputs = max(16, min(_INPUTS, triton.next_power_of_2(d)))
    own, others = (x,) * 4, (y,) * 4  # nobody looks at them
    if not direct:
        own, others = _halves(left, tall, inputs), _halves(right, _COLUMNS, inputs)
    width = 1 if k == 1 else max(16, triton.next_power_of_2(k))
    weights = w.new_zeros((y.shape[1], width))
    weights[:m, :k] = w
    short = k > 1 and kernel.name not in _UNBOUNDED
    parts = _in_halves(weights, dim=0) if short else (weights, weights, weights.new_ones(width))
    share, beyond, start = CANCELLED["float32"]
    if kernel.name == "exponential":
        share = ROOT_SHARE
    span, n_spans = _spans(x.shape[1] // tall, y.shape[1] // _COLUMNS)
    sums = w.new_zeros((n_spans, x.shape[1], width), dtype=kernel.scale.dtype)
    _product[(x.shape[1] // tall, n_spans)](
        *(x, y, *own, *others, rest, *parts[:2], sums),
        *(x.shape[1], y.shape[1], d, own[0].shape[1], span),
        *(float(kernel.parameter), share, share + beyond, beyond * start),
        KIND=_KINDS[kernel.name],
        SHORT=short,
        DIRECT=direct,
        UNIFORM=bool((rest == rest[0]).all()),
        WIDTH=width,
        ROWS=tall,
        COLUMNS=_COLUMNS,
        INPUTS=inputs,
        SINGLE=own[0].shape[1] == inputs,
        FLUSH=_FLUSH,
        **_OPTIONS,
    )
    return (sums.sum(dim=0) * parts[2])[:n, :k]


def _powers_of_two(scale: Any) -> tuple[Any, Any]:
    """Scales (d,) as powers of two, which rows are multiplied by exactly, times what is left."""
    whole = scale.log2().floor().exp2()
    return whole.float(), (scale / whole).where(whole > 0, whole).float()


def _halves(of: Rows, rows: int, inputs: int) -> tuple[Any, Any, Any, Any]:
    """Scaled rows as sums of two numbers of 16 bits times a unit of each row, and their squares."""
    high, low, units = _in_halves(of.scaled, dim=1)
    parts = _padded(high, rows, inputs), _padded(low, rows, inputs)
    return *parts, _padded(units, rows), _padded(of.squares, rows)


def _in_halves(values: Any, dim: int) -> tuple[Any, Any, Any]:
    """Numbers as sums of two of 16 bits, times a power of two of each line along ``dim``.

    The power puts the largest of a line at 2¹², far from the ends of what 16 bits can say: 22 bits
    are left of it, and of others all that stand above its last.
    """
    largest = values.abs().amax(dim=dim, keepdim=True).clamp(min=1e-30)
    unit = (largest.log2().floor() - 12.0).exp2()
    shifted = values / unit
    high = shifted.half()
    return high, (shifted - high.float()).half(), unit.squeeze(dim)


def _padded(values: Any, rows: int, inputs: int = 1) -> Any:
    """Rows up to a multiple of ``rows``, the last one repeated, and zeros up to one of inputs."""
    if values.ndim == 2 and values.shape[1] % inputs:
        wide = values.new_zeros((len(values), values.shape[1] + -values.shape[1] % inputs))
        wide[:, : values.shape[1]] = values
        values = wide
    if len(values) % rows == 0:
        return values
    tall = values.new_empty((len(values) + -len(values) % rows, *values.shape[1:]))
    tall[: len(values)], tall[len(values) :] = values, values[-1]
    return tall


def _spans(row_tiles: int, column_tiles: int) -> tuple[int, int]:
    """Columns of a program and the number of programs that share them, for few rows."""
    n_spans = min(column_tiles, -(-_PROGRAMS // row_tiles))
    tiles = -(-column_tiles // n_spans)
    return tiles * _COLUMNS, -(-column_tiles // tiles)


@triton.jit
def _differences(
    x, y, scales, own_at, others_at, n, m, d, KIND: tl.constexpr, UNIFORM: tl.constexpr
):
    """Sums over inputs of |t| or t², or products of 1 + t², with differences t of the rows."""
    scale = tl.load(scales)
    first = 1.0 if KIND == 9 else 0.0
    sums = tl.zeros((own_at.shape[0], others_at.shape[0]), dtype=tl.float32) + first
    for j in range(d):
        t = tl.load(x + own_at)[:, None] - tl.load(y + others_at)[None, :]
        if not UNIFORM:
            scale = tl.load(scales + j)
        if KIND == 9 or not UNIFORM:
            t *= scale
        if KIND == 9:
            sums *= 1.0 + t * t
        elif KIND >= 7:
            sums += tl.abs(t)
        else:
            sums += t * t
        x += n
        y += m
    if UNIFORM and KIND < 7:
        sums *= scale * scale
    elif UNIFORM and KIND < 9:
        sums *= scale
    return sums


@triton.jit
def _exp(s):
    """Of a tile; powers of two need no care for numbers below the least that is normal."""
    return tl.exp2(s * _LOG2_E)


@triton.jit
def _profile(s, parameter, KIND: tl.constexpr):
    """The kernel of a sum of squares, or of what ``_differences`` makes."""
    if KIND == 0 or KIND == 7:
        value = s
    elif KIND == 1 or KIND == 8:
        value = _exp(-s)
    elif KIND == 2:
        value = _exp(-tl.sqrt(s))
    elif KIND == 3:
        r = tl.sqrt(3.0 * s)
        value = (1.0 + r) * _exp(-r)
    elif KIND == 4:
        r = tl.sqrt(5.0 * s)
        value = (1.0 + r + r * r / 3.0) * _exp(-r)
    elif KIND == 5:
        value = 1.0 / (1.0 + s)
    elif KIND == 6:
        value = tl.exp2(-parameter * tl.log2(1.0 + s / parameter))
    else:
        value = 1.0 / s
    return value


@triton.jit
def _inner_products(
    high, low, highs, lows, rows, columns, own_high, own_low, width,
    INPUTS: tl.constexpr, SINGLE: tl.constexpr,
):  # fmt: skip
    """Of rows with others, whose first inputs are ``own_high`` and ``own_low``."""
    inputs = tl.arange(0, INPUTS)
    there = columns[None, :] * width + inputs[:, None]
    high_others = tl.load(highs + there)
    inner = tl.dot(own_low, high_others)
    inner = tl.dot(own_high, tl.load(lows + there), inner)
    inner = tl.dot(own_high, high_others, inner)
    if not SINGLE:
        here = rows[:, None] * width + inputs[None, :]
        for j in range(INPUTS, width, INPUTS):
            high_own, high_others = tl.load(high + here + j), tl.load(highs + there + j)
            inner = tl.dot(tl.load(low + here + j), high_others, inner)
            inner = tl.dot(high_own, tl.load(lows + there + j), inner)
            inner = tl.dot(high_own, high_others, inner)
    return inner


@triton.jit
def _times(entries, w, w_low, there, sums, SHORT: tl.constexpr):
    """``sums`` and a tile's product with weights, of 16 bits each or of 19."""
    if not SHORT:
        return tl.dot(entries, tl.load(w + there), sums, input_precision="tf32x3")
    high = entries.to(tl.float16)
    low = (entries - high.to(tl.float32)).to(tl.float16)
    weights = tl.load(w + there)
    sums = tl.dot(low, weights, sums)
    sums = tl.dot(high, tl.load(w_low + there), sums)
    return tl.dot(high, weights, sums)


@triton.jit
def _product(
    x, y, high, low, units, squares, highs, lows, their_units, their_squares, scales, w, w_low,
    out, n, m, d, width, span, parameter, share, steep, less, KIND: tl.constexpr,
    SHORT: tl.constexpr, DIRECT: tl.constexpr, UNIFORM: tl.constexpr, WIDTH: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, INPUTS: tl.constexpr, SINGLE: tl.constexpr,
    FLUSH: tl.constexpr,
):  # fmt: skip
    """out[span] (n, WIDTH) += the kernel of x and some of y times w (m, WIDTH), for some rows.

    x (d, n) and y (d, m) are the rows as they came, times powers of two, input by input; others are
    of ``_halves``. Expanded squares up to max(share * both, steep * both - less), where both is the
    sum of two rows' squares, are made again from differences.
    """
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    columns, outputs = tl.arange(0, COLUMNS), tl.arange(0, WIDTH)
    begin = tl.program_id(1).to(tl.int64) * span
    end = tl.minimum(begin + span, m)
    if not DIRECT:
        here = rows[:, None] * width + tl.arange(0, INPUTS)[None, :]
        own_high, own_low = tl.load(high + here), tl.load(low + here)
        minus_twice, of_rows = -2.0 * tl.load(units + rows), tl.load(squares + rows)
    place = tl.program_id(1).to(tl.int64) * n + rows
    out += place[:, None] * WIDTH + outputs[None, :]
    for turn in range(begin, end, FLUSH * COLUMNS):
        short = tl.zeros((ROWS, COLUMNS if WIDTH == 1 else WIDTH), dtype=tl.float32)
        for first in range(turn, tl.minimum(turn + FLUSH * COLUMNS, end), COLUMNS):
            if DIRECT:
                sums = _differences(x, y + first, scales, rows, columns, n, m, d, KIND, UNIFORM)
            else:
                inner = _inner_products(
                    high, low, highs + first * width, lows + first * width, rows, columns,
                    own_high, own_low, width, INPUTS, SINGLE,
                )  # fmt: skip
                both = of_rows[:, None] + tl.load(their_squares + first + columns)[None, :]
                inner *= tl.load(their_units + first + columns)[None, :]
                sums = both + inner * minus_twice[:, None]
                least = tl.maximum(share * both, steep * both - less)
                if tl.min(sums - least) <= 0.0:
                    exact = _differences(x, y + first, scales, rows, columns, n, m, d, 0, UNIFORM)
                    sums = tl.where(sums <= least, exact, sums)
            entries = _profile(sums, parameter, KIND)
            if WIDTH == 1:
                short += entries * tl.load(w + first + columns)[None, :]
            else:
                there = first * WIDTH + columns[:, None] * WIDTH + outputs[None, :]
                short = _times(entries, w, w_low, there, short, SHORT)
        if WIDTH == 1:
            tl.store(out, tl.load(out) + tl.sum(short, axis=1)[:, None].to(tl.float64))
        else:
            tl.store(out, tl.load(out) + short.to(tl.float64))
