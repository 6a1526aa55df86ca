"""Ways to draw the frequencies of a kernel, each from the key and its number alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import qmc

from mercer import _core
from mercer._runtime.arrays import check_memory
from mercer._runtime.random import Slot, Streams
from mercer.kernels import Kernel
from mercer.kernels.spectral import law_of

__all__ = ["SAMPLINGS", "draw", "next_power_of_two", "signs"]

SAMPLINGS = ("iid", "orthogonal", "structured", "qmc")

_NET_BITS = 32  # bits of a coordinate; a point is the middle of its cell


def draw(
    sampling: str,
    kernel: Kernel,
    key: int,
    streams: NDArray[np.int64],
    n_streams: int,
    n_inputs: int,
) -> NDArray[np.float64]:
    """Frequencies (b, n_inputs) of the (b,) streams, each below ``n_streams``, in any order.

    Raises NotRepresentable if the law of the kernel's frequencies is not known, is not radial for
    "orthogonal" and "structured", or is not known by its quantiles for "qmc", and ValueError if
    "qmc" is asked for more inputs than Sobol' points have coordinates.
    """
    if sampling == "iid":
        return kernel.frequencies(Streams(key, streams), n_inputs)
    law = law_of(kernel)
    if sampling == "qmc":
        uniform = _net(key, streams, law.n_uniforms(n_inputs))
        return law.frequencies_from_uniform(uniform, n_inputs)
    if sampling == "orthogonal":
        directions, size = _at_right_angles, n_inputs
    else:
        directions, size = _rotated_signs, next_power_of_two(n_inputs)
    blocks, place = np.unique(streams // size, return_inverse=True)
    count = min(size, n_streams)
    check_memory(
        16.0 * len(blocks) * count * n_inputs,
        f"drawing frequencies of {n_inputs} inputs in blocks",
        "use sampling='iid'",
    )
    out = directions(key, blocks, count, n_inputs)[place, streams % size]
    out *= law.radius(Streams(key, streams), size)[:, None]
    return out * law.input_scale(n_inputs)


def _at_right_angles(
    key: int, blocks: NDArray[np.int64], count: int, n_inputs: int
) -> NDArray[np.float64]:
    """Orthonormal directions, (b, count, d): Gram and Schmidt's of one random one per frequency."""
    members = (n_inputs * blocks[:, None] + np.arange(count)).ravel()
    normal = Streams(key, members).normal(n_inputs, Slot.FREQUENCY)
    q, r = np.linalg.qr(normal.reshape(len(blocks), count, n_inputs).transpose(0, 2, 1))
    towards = np.sign(np.diagonal(r, axis1=1, axis2=2))
    return (q * towards[:, None, :]).transpose(0, 2, 1)


def _rotated_signs(
    key: int, blocks: NDArray[np.int64], count: int, n_inputs: int
) -> NDArray[np.float64]:
    """Rows of (H D)**3, orthonormal: H a Walsh-Hadamard matrix, D random signs, thrice others."""
    size = next_power_of_two(n_inputs)
    diagonals = signs(Streams(key, blocks), 3 * size).reshape(len(blocks), 3, size)
    rows = np.zeros((size, len(blocks), n_inputs))
    rows[np.arange(n_inputs), :, np.arange(n_inputs)] = 1.0
    for turn in range(3):
        rows *= diagonals[:, turn].T[:, :, None] / np.sqrt(size)
        _core.hadamard_columns(rows.reshape(size, -1), 1)
    return rows[:count].transpose(1, 0, 2)


def _net(key: int, streams: NDArray[np.int64], n_coordinates: int) -> NDArray[np.float64]:
    """Points of a scrambled Sobol' sequence, in the open unit cube."""
    if n_coordinates > qmc.Sobol.MAXDIM:
        raise ValueError(
            f"sampling='qmc' takes at most {qmc.Sobol.MAXDIM} uniform numbers per frequency; "
            f"got {n_coordinates}."
        )
    seed = Streams(key, np.zeros(1, dtype=np.int64)).bits(1, Slot.NET)[0]
    net = qmc.Sobol(n_coordinates, bits=_NET_BITS, seed=np.random.default_rng(seed))
    points, place = np.unique(streams, return_inverse=True)
    uniform = np.empty((len(points), n_coordinates))
    gaps = np.flatnonzero(np.diff(points) > 1) + 1
    # The first point is a run of its own: asked for a few with it, SciPy warns of their balance.
    gaps = np.union1d(gaps, np.flatnonzero(points == 0) + 1)
    at = 0
    for run in np.split(np.arange(len(points)), gaps):
        if len(run):
            start = int(points[run[0]])
            if start > at:
                net.fast_forward(start - at)
            uniform[run] = net.random(len(run))
            at = start + len(run)
    return uniform[place] + 2.0 ** -(_NET_BITS + 1)


def next_power_of_two(n: int) -> int:
    """The least power of two that is at least n, for n >= 1."""
    return 1 << (n - 1).bit_length()


def signs(streams: Streams, size: int) -> NDArray[np.float64]:
    """Random signs, (len, size)."""
    return np.where(streams.bits(size, Slot.SIGN) >> np.uint64(63), 1.0, -1.0)
