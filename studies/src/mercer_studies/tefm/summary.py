"""Sentences on the numbers of the TEFM study, computed from records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from mercer_studies.queries import Record, by_data, error, select
from mercer_studies.tefm.claims import EXPONENTS, exponents, kernel_errors, shares_of
from mercer_studies.tefm.figures import bounded_runs
from mercer_studies.tefm.grid import METHODS, SOURCES
from mercer_studies.tefm.tables import points

_TEFM = ("tefm-g0", "tefm-g", "tefm-s")
_LANDMARKS = ("nystroem", "rpcholesky")
_BOUNDED = ("rks", "tefm-g", "tefm-s")


def shows(records: Sequence[Record]) -> list[str]:
    """A sentence for each comparison that the records have runs for."""
    parts = (_extent, _powers, _orthogonal, _landmarks, _regressions, _bounds, _excess, _times)
    return [sentence for part in parts for sentence in part(records)]


def _errors(records: Sequence[Record]) -> dict[str, dict[str, dict[int, float]]]:
    """Mean errors of the kernel matrix by data set, method and size."""
    chosen = by_data(select(records, figure=1, protocol="fair"))
    return {name: kernel_errors(runs) for name, runs in chosen.items()}


def _span(values: Iterable[float]) -> str:
    """The least and the largest of some factors."""
    known = sorted(values)
    least, most = (f"{float(f'{value:.2g}'):,g}" for value in (known[0], known[-1]))
    return least if least == most else f"{least} to {most}"


def _extent(records: Sequence[Record]) -> Iterator[str]:
    """Rows and seeds of the runs with random features."""
    for figure in (1, 2):
        known = by_data(select(records, figure=figure, protocol="fair", method="rks"))
        seeds = {run["seed"] for runs in known.values() for run in runs}
        if seeds:
            fitted = {name: max(run["rows"] for run in runs) for name, runs in known.items()}
            rows = ", ".join(f"{number:,} of {name}" for name, number in fitted.items())
            theirs = {name: getattr(SOURCES.get(name), "paper_rows", None) for name in fitted}
            same = ", as many as in the paper" if fitted == theirs else ""
            many = "one seed" if len(seeds) == 1 else f"{len(seeds)} seeds"
            yield f"Figure {figure} has {many}; its rows are {rows}{same}."


def _powers(records: Sequence[Record]) -> Iterator[str]:
    """Sentences on the influence of the power q of FFᵀ and of the sketch."""
    apart: dict[int, list[float]] = {}
    for errors in _errors(records).values():
        if set(_TEFM) <= set(errors):
            for size in set.intersection(*(set(errors[method]) for method in _TEFM)):
                values = [errors[method][size] for method in _TEFM]
                apart.setdefault(size, []).append(max(values) / min(values) - 1.0)
    if apart:
        said = (f"{100 * max(apart[size]):.1f} % at l = {size}" for size in sorted(apart))
        yield (
            "The kernel errors of TEFM-G with q = 0, of TEFM-G with q = 1 and of TEFM-S are apart "
            f"by up to {', '.join(said)}."
        )


def _orthogonal(records: Sequence[Record]) -> Iterator[str]:
    """Orthogonal frequencies against independent ones."""
    shares: dict[int, list[float]] = {}
    for errors in _errors(records).values():
        for size, share in shares_of(errors, "orthogonal", ["rks"]).items():
            shares.setdefault(size, []).append(share)
    if shares:
        said = (f"{_span(shares[size])} at l = {size}" for size in sorted(shares))
        yield f"Kernel error of orthogonal frequencies over that of RKS: {', '.join(said)}."


def _landmarks(records: Sequence[Record]) -> Iterator[str]:
    """Landmarks against random Fourier features, and against each other."""
    known = _errors(records)
    for method in _LANDMARKS:
        shares = [
            1 / share
            for one in known.values()
            for share in shares_of(one, method, ["rks"]).values()
        ]
        if shares:
            yield (
                f"With as many features RKS has {_span(shares)} times the kernel error of "
                f"{METHODS[method].label}."
            )
    pairs = {
        f"{name} at l = {size}": share
        for name, one in known.items()
        for size, share in shares_of(one, "rpcholesky", ["nystroem"]).items()
    }
    if pairs:
        worse = [place for place, share in pairs.items() if share > 1]
        where = f": {', '.join(worse)}" if worse else ""
        yield (
            f"RPCholesky has more kernel error than Nyström in {len(worse)} of {len(pairs)} "
            f"cases{where}."
        )


def _regressions(records: Sequence[Record]) -> Iterator[str]:
    """Ridge regression on TEFM against that on landmarks."""
    won, asked = 0, 0
    for runs in by_data(select(records, figure=2, protocol="fair")).values():
        errors = {(one.method, one.size): one.error for one in points(runs, error)}
        for method, size in errors:
            if method == "nystroem" and ("tefm-g", size) in errors:
                asked += 1
                won += errors[method, size] < errors["tefm-g", size]
    if asked:
        yield (
            f"Ridge regression with as many features has less error on Nyström than on TEFM-G in "
            f"{won} of {asked} cases."
        )


def _bounds(records: Sequence[Record]) -> Iterator[str]:
    """Theorems 1 and 2 against what was measured."""
    runs = bounded_runs(records)
    if not runs:
        return
    above = sum(run["score"]["kernel"]["spectral"] > run["theory"]["spectral"] for run in runs)
    said = []
    for method in _BOUNDED:
        own = [run for run in runs if run["method"] == method]
        if own:
            factors = (
                run["theory"]["spectral"] / run["score"]["kernel"]["spectral"] for run in own
            )
            said.append(f"{_span(factors)} times the error of {METHODS[method].label}")
    yield f"{above or 'None'} of {len(runs)} runs exceed their bound, which is {', '.join(said)}."


def _excess(records: Sequence[Record]) -> Iterator[str]:
    """Theorem 3 against what was measured."""
    factors = [
        run["theory"]["allowed_excess"] / run["theory"]["excess"]
        for run in bounded_runs(records)
        if run["theory"]["excess"] > 0
    ]
    if factors:
        yield f"Theorem 3 allows {_span(factors)} times the excess loss that is measured."


def _times(records: Sequence[Record]) -> Iterator[str]:
    """Which fitted powers are above those of Table 1."""
    found = {key: power for key, (power, _) in exponents(records).items() if key in EXPONENTS}
    above = [
        f"{METHODS[method].label} {'solution' if phase == 'solve' else phase} "
        f"{varied}^{found[method, phase, varied]:.2f}"
        for method, phase, varied in found
        if round(found[method, phase, varied], 2) > EXPONENTS[method, phase, varied]
    ]
    if found:
        which = f": {', '.join(above)}" if above else ""
        yield f"{len(above)} of {len(found)} fitted powers are above those of Table 1{which}."
