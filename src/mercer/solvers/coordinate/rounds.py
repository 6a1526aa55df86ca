"""When steps along several columns at once are safe."""

from __future__ import annotations

from mercer._validation import positive_integer

__all__ = ["eso_factor"]


def eso_factor(omega: int, tau: int, n_columns: int) -> float:
    """How much larger curvatures have to be for τ random columns to move at once.

    β = 1 + (ω − 1)(τ − 1) / max(1, D − 1), if no row has more than ω entries: then the objective
    does not rise on average over the choice of the columns.

    Parameters
    ----------
    omega, tau, n_columns : int
        ω, most non-zeros of a row; τ, columns moved at once; and D, all of them: from 1 to D.

    Returns
    -------
    float
        1 for τ = 1 or ω = 1, and τ for ω = D.

    References
    ----------
    Richtárik and Takáč (2016), Parallel coordinate descent methods for big data optimization.

    Examples
    --------
    >>> from mercer.solvers.coordinate import eso_factor
    >>> eso_factor(omega=11, tau=11, n_columns=101)
    2.0
    """
    omega, tau = positive_integer(omega, "omega"), positive_integer(tau, "tau")
    n_columns = positive_integer(n_columns, "n_columns")
    if max(omega, tau) > n_columns:
        raise ValueError(
            f"omega and tau must be at most n_columns={n_columns}; got {omega} and {tau}."
        )
    return 1.0 + (omega - 1) * (tau - 1) / max(1, n_columns - 1)
