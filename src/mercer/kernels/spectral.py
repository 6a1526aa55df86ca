"""Kernels whose frequencies have a law of closed form, each a function of uniform numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv, ndtri

from mercer._runtime.random import Slot, Streams
from mercer.kernels.base import Kernel, NotRepresentable, Stationary


class Spectral(Stationary):
    """A stationary kernel that says how uniform numbers become frequencies.

    Two families of laws cover the kernels in use, and a kernel says at least one of them, both for
    gamma = 1. Either the inputs of a frequency are independent with one law, which ``quantile``
    gives, or a frequency is a vector of independent standard normal numbers times a random factor,
    which ``spread`` gives: radial kernels that are positive definite whatever the number of inputs
    are of this kind, and of no other (Schoenberg's theorem). The Gaussian is of both.
    """

    def quantile(self, uniform: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """Quantiles of one input of a frequency; None if inputs depend on each other."""
        return None

    def spread(self, uniform: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """The factor of normal numbers, for one in (0, 1) each; None if the law is not radial."""
        return None

    def n_uniforms(self, n_inputs: int) -> int:
        """Uniform numbers that a frequency of d inputs takes: d, or one more for its spread."""
        independent = self.quantile(np.array([0.5])) is not None
        return n_inputs if independent else n_inputs + 1

    def frequencies_from_uniform(
        self, uniform: NDArray[np.float64], n_inputs: int
    ) -> NDArray[np.float64]:
        """The frequencies (b, d) that points (b, n_uniforms(d)) stand for, as their quantiles.

        The points lie in the open unit cube: at random, or in a sequence that fills it evenly.
        """
        unit = self.quantile(uniform[:, :n_inputs])
        if unit is None:
            spread = self.spread(uniform[:, n_inputs:])
            if spread is None:
                raise NotImplementedError
            unit = ndtri(uniform[:, :n_inputs]) * spread
        return unit * self.input_scale(n_inputs)

    def frequencies(self, streams: Streams, n_inputs: int) -> NDArray[np.float64]:
        uniform = streams.uniform(n_inputs, Slot.FREQUENCY)
        if self.n_uniforms(n_inputs) > n_inputs:
            uniform = np.hstack([uniform, streams.uniform(1, Slot.RADIUS)])
        return self.frequencies_from_uniform(uniform, n_inputs)

    def radius(self, streams: Streams, n_inputs: int) -> NDArray[np.float64]:
        """Lengths (b,) of frequencies at gamma = 1, whose directions are uniform, one per stream.

        NotRepresentable if their law is not radial.
        """
        spread = self.spread(streams.uniform(1, Slot.RADIUS)[:, 0])
        if spread is None:
            raise NotRepresentable(
                f"{self!r} is not a function of the Euclidean distance, which Fastfood and "
                "frequencies at right angles need; use feature_map='fourier'."
            )
        uniform = streams.uniform(1, Slot.SCALING)[:, 0]
        return np.sqrt(2.0 * gammaincinv(n_inputs / 2.0, uniform)) * spread  # chi quantiles


def law_of(kernel: Kernel) -> Spectral:
    """The kernel without its factor as one of known frequencies, or NotRepresentable."""
    law = kernel.unscaled
    if not isinstance(law, Spectral):
        raise NotRepresentable(
            f"{kernel!r} has no law of frequencies in closed form, which Fastfood and every "
            "sampling but 'iid' need; use sampling='iid' or feature_map='nystroem'."
        )
    return law
