"""Products with kernel matrices that never leave the chip, in Triton.

A program takes some rows, walks over all others, makes a tile of the kernel in registers and adds
its product with the weights. Functions of squared distances take inner products on tensor cores,
three products of 19-bit numbers for one of float32; where an expanded square has cancelled, and for
kernels that take every coordinate by itself, differences are summed on the vector units.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from mercer.designs.on_device.entries import CANCELLED, ROOT_SHARE, KernelOf, Rows

__all__ = ["fused_product"]

_ROWS, _COLUMNS, _INPUTS = 64, 64, 32  # of a tile, and inputs of it that are read together
_MOST_WEIGHTS = 64  # columns of weights of one program
_FLUSH = 64  # tiles whose products are summed in float32, before the sum goes on in float64

_NAMES = (
    *("sqeuclidean", "gaussian", "exponential", "matern_3_2", "matern_5_2"),
    *("rational", "rational_power", "cityblock", "laplacian", "cauchy"),
)
_KINDS = {name: number for number, name in enumerate(_NAMES)}


def fused_product(kernel: KernelOf, left: Rows, right: Rows, w: Any) -> Any:
    """The kernel of rows (n, d) against others (m, d), times w (m, k): a tensor (n, k) of float64.

    Rows and weights are of float32, on one device.
    """
    n, k = len(left), w.shape[1]
    out = w.new_zeros((n, k), dtype=left.given.double().dtype)
    scale = kernel.scale.float()
    share, beyond, start = CANCELLED["float32"]
    if kernel.name == "exponential":
        share = ROOT_SHARE
    x, y = left.given.T.contiguous(), right.given.T.contiguous()
    for first in range(0, k, _MOST_WEIGHTS):
        weights = w[:, first : first + _MOST_WEIGHTS]
        width = max(16, triton.next_power_of_2(weights.shape[1]))
        padded = w.new_zeros((len(right), width))
        padded[:, : weights.shape[1]] = weights
        sums = out.new_zeros((n, width))
        _product[(triton.cdiv(n, _ROWS),)](
            x,
            y,
            x if left.scaled is None else left.scaled,
            y if right.scaled is None else right.scaled,
            x if left.squares is None else left.squares,
            y if right.squares is None else right.squares,
            scale,
            padded,
            sums,
            n,
            len(right),
            left.given.shape[1],
            float(kernel.parameter),
            share,
            beyond,
            start,
            KIND=_KINDS[kernel.name],
            DIRECT=kernel.is_direct,
            WIDTH=width,
            ROWS=_ROWS,
            COLUMNS=_COLUMNS,
            INPUTS=_INPUTS,
            FLUSH=_FLUSH,
        )
        out[:, first : first + _MOST_WEIGHTS] = sums[:, : weights.shape[1]]
    return out


@triton.jit
def _differences(x, y, scale, rows, columns, n, m, d, KIND: tl.constexpr):
    """Sums over inputs of |t| or t², or products of 1 + t², of the rows as they came."""
    first = 1.0 if KIND == 9 else 0.0
    sums = tl.zeros((rows.shape[0], columns.shape[0]), dtype=tl.float32) + first
    for j in range(d):
        own = tl.load(x + j * n + rows, mask=rows < n, other=0.0)
        others = tl.load(y + j * m + columns, mask=columns < m, other=0.0)
        t = (own[:, None] - others[None, :]) * tl.load(scale + j)
        if KIND == 9:
            sums *= 1.0 + t * t
        elif KIND >= 7:
            sums += tl.abs(t)
        else:
            sums += t * t
    return sums


@triton.jit
def _profile(s, parameter, KIND: tl.constexpr):
    """The kernel of a sum of squares, or of what ``_differences`` makes."""
    if KIND == 0 or KIND == 7:
        value = s
    elif KIND == 1 or KIND == 8:
        value = tl.exp(-s)
    elif KIND == 2:
        value = tl.exp(-tl.sqrt(s))
    elif KIND == 3:
        r = tl.sqrt(3.0 * s)
        value = (1.0 + r) * tl.exp(-r)
    elif KIND == 4:
        r = tl.sqrt(5.0 * s)
        value = (1.0 + r + r * r / 3.0) * tl.exp(-r)
    elif KIND == 5:
        value = 1.0 / (1.0 + s)
    elif KIND == 6:
        value = tl.exp(-parameter * tl.log(1.0 + s / parameter))
    else:
        value = 1.0 / s
    return value


@triton.jit
def _squares(
    x, y, xs, ys, x_squares, y_squares, scale, rows, columns, n, m, d, share, beyond, start,
    KIND: tl.constexpr, INPUTS: tl.constexpr,
):  # fmt: skip
    """Squared distances, from inner products where these have digits enough."""
    inner = tl.zeros((rows.shape[0], columns.shape[0]), dtype=tl.float32)
    for j in range(0, d, INPUTS):
        inputs = j + tl.arange(0, INPUTS)
        own = tl.load(
            xs + rows[:, None] * d + inputs[None, :],
            mask=(rows[:, None] < n) & (inputs[None, :] < d),
            other=0.0,
        )
        others = tl.load(
            ys + columns[None, :] * d + inputs[:, None],
            mask=(columns[None, :] < m) & (inputs[:, None] < d),
            other=0.0,
        )
        inner = tl.dot(own, others, inner, input_precision="tf32x3")
    of_rows = tl.load(x_squares + rows, mask=rows < n, other=0.0)
    of_columns = tl.load(y_squares + columns, mask=columns < m, other=0.0)
    both = of_rows[:, None] + of_columns[None, :]
    squares = both - 2.0 * inner
    least = share * both + beyond * tl.maximum(both - start, 0.0)
    doubtful = (squares <= least) & (rows[:, None] < n) & (columns[None, :] < m)
    if tl.max(tl.max(doubtful.to(tl.int32), axis=1), axis=0) > 0:
        exact = _differences(x, y, scale, rows, columns, n, m, d, 0)
        squares = tl.where(doubtful, exact, squares)
    return tl.maximum(squares, 0.0)


@triton.jit
def _product(
    x, y, xs, ys, x_squares, y_squares, scale, w, out, n, m, d, parameter, share, beyond, start,
    KIND: tl.constexpr, DIRECT: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr, INPUTS: tl.constexpr, FLUSH: tl.constexpr,
):  # fmt: skip
    """out (n, WIDTH) = the kernel of x and y times w (m, WIDTH), for one block of rows.

    x (d, n) and y (d, m) are the rows as they came, input by input; xs (n, d) and ys (m, d) are
    centred and scaled, with their squares.
    """
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    outputs = tl.arange(0, WIDTH)
    total = tl.zeros((ROWS, WIDTH), dtype=tl.float64)
    short = tl.zeros((ROWS, WIDTH), dtype=tl.float32)
    turn = 0
    for first in range(0, m, COLUMNS):
        columns = first + tl.arange(0, COLUMNS).to(tl.int64)
        if DIRECT:
            sums = _differences(x, y, scale, rows, columns, n, m, d, KIND)
        else:
            sums = _squares(
                x, y, xs, ys, x_squares, y_squares, scale, rows, columns, n, m, d,
                share, beyond, start, KIND, INPUTS,
            )  # fmt: skip
        entries = tl.where(columns[None, :] < m, _profile(sums, parameter, KIND), 0.0)
        weights = tl.load(
            w + columns[:, None] * WIDTH + outputs[None, :], mask=columns[:, None] < m, other=0.0
        )
        short = tl.dot(entries, weights, short, input_precision="tf32x3")
        turn += 1
        if turn == FLUSH:
            total += short.to(tl.float64)
            short = tl.zeros((ROWS, WIDTH), dtype=tl.float32)
            turn = 0
    total += short.to(tl.float64)
    tl.store(out + rows[:, None] * WIDTH + outputs[None, :], total, mask=rows[:, None] < n)
