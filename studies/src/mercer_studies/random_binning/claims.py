"""Claims of the random binning paper, each with a rule that records hold or do not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from scipy.stats import spearmanr

from mercer_studies.claims import (
    HELD,
    NOT_HELD,
    NOT_TESTED,
    Claim,
    Decision,
    Finding,
    Found,
    Rule,
    graded,
    of_each,
    overall,
)
from mercer_studies.measures import is_lower, median_factor, percent, power_law
from mercer_studies.queries import (
    METHODS,
    Record,
    averaged,
    best,
    best_by_size,
    by_data,
    error,
    exact_kernel,
    gamma_sweep,
    is_regression,
    paper_name,
)
from mercer_studies.random_binning import speedups

_RIVALS = ("fourier", "nystroem", "blocks")
_COLUMNS = 395  # of the paper's example
_TOO_LARGE = ("covtype", "covtype-mult", "SUSY")  # for the exact kernel, in the paper


def _example(records: Sequence[Record]) -> list[Finding]:
    """Figure 2."""
    found = []
    for record in records:
        shown = record.get("example")
        if not shown:
            continue
        indices = np.asarray(shown["indices"])
        rows, grids = indices.shape
        one_each = shown["nnz"] == rows * grids and all(len(set(row)) == grids for row in indices)
        near = abs(shown["D"] - _COLUMNS) <= 0.1 * _COLUMNS
        verdict = graded(one_each and near, one_each)
        numbers = (
            f"{rows} points, {grids} grids: {shown['D']} bins, {shown['nnz']} ones, "
            f"{shown['D'] / grids:.1f} bins a grid, {percent(grids / shown['D'])} full"
        )
        found.append(Finding(record["data"]["name"], "published", verdict, numbers))
    return found


# --- figure 3: over γ ------------------------------------------------------------------------


def _together(runs: Sequence[Record]) -> Found:
    sweep, at = _sweep(runs)
    rising = sweep[: at + 1]
    if len(rising) < 3:
        return NOT_TESTED, "fewer than three values of γ up to the best"
    test, train = ([error(run, part) for run in rising] for part in ("test", "train"))
    alike = _rank_correlation(test, train)
    numbers = (
        f"γ {rising[0]['gamma']:g} to {rising[-1]['gamma']:g}: test {percent(test[0])} to "
        f"{percent(test[-1])}, training {percent(train[0])} to {percent(train[-1])}, "
        f"rank correlation {alike:.2f}"
    )
    fell = is_lower(test[-1], test[0], rising[0]) and is_lower(train[-1], train[0], rising[0])
    return graded(fell and alike >= 0.8, fell), numbers


def _apart(runs: Sequence[Record]) -> Found:
    sweep, at = _sweep(runs)
    if at >= len(sweep) - 1:
        return NOT_TESTED, "no γ above the best was run"
    top, last = sweep[at], sweep[-1]
    least = min(error(run, "train") for run in sweep[at:])
    worse, perfect = error(last) >= 1.05 * error(top), least <= 0.05
    numbers = (
        f"γ {top['gamma']:g} to {last['gamma']:g}: test {percent(error(top))} to "
        f"{percent(error(last))}, training down to {percent(least)}"
    )
    return graded(worse and perfect, worse or perfect), numbers


def _cheap(runs: Sequence[Record]) -> Found:
    sweep, at = _sweep(runs)
    if len(sweep) < 3:
        return NOT_TESTED, "fewer than three values of γ"
    seconds = [_seconds(run) for run in sweep]
    ratio = seconds[at] / min(seconds)
    numbers = f"{seconds[at]:.3g} s at the best γ, {ratio:.2f} times the least"
    return graded(ratio <= 2, ratio <= 5), numbers


def _slower_with_columns(runs: Sequence[Record]) -> Found:
    sweep, _ = _sweep(runs)
    if len(sweep) < 3:
        return NOT_TESTED, "fewer than three values of γ"
    columns = [_columns(run) for run in sweep]
    seconds = [_seconds(run) for run in sweep]
    alike = _rank_correlation(columns, seconds)
    numbers = (
        f"{columns[0]:,} to {columns[-1]:,} bins: {seconds[0]:.3g} to {seconds[-1]:.3g} s, "
        f"rank correlation {alike:.2f}"
    )
    return graded(alike >= 0.8, alike >= 0.5), numbers


# --- figure 4: over the number of grids ------------------------------------------------------


def _better_with_grids(runs: Sequence[Record]) -> Found:
    slopes, straight = [], []
    for sizes, errors in _curves(runs, "test"):
        slope, fit = power_law(sizes, errors)
        slopes.append(slope)
        straight.append(fit)
    if not slopes:
        return NOT_TESTED, "no γ has three numbers of grids"
    falling = float(np.mean([slope < 0 for slope in slopes]))
    numbers = (
        f"the error falls for {percent(falling)} of {len(slopes)} values of γ, median exponent "
        f"{np.median(slopes):.3f}, median R² of the line {np.median(straight):.2f}"
    )
    return graded(falling >= 0.8 and np.median(straight) >= 0.9, falling >= 0.5), numbers


def _memorises(runs: Sequence[Record]) -> Found:
    known = [run for run in runs if np.isfinite(error(run, "train"))]
    if not known:
        return NOT_TESTED, "no training scores"
    least = min(known, key=lambda run: error(run, "train"))
    value = error(least, "train")
    numbers = f"training error {percent(value)} at γ {least['gamma']:g} and R {least['size']}"
    return graded(value <= 0.02, value <= 0.1), numbers


# --- figure 5: beside the rivals -------------------------------------------------------------


def _best_everywhere(runs: Sequence[Record]) -> Found:
    errors, sizes = _by_method(runs)
    if not sizes:
        return NOT_TESTED, "no rival was run at a size of random binning"
    first = [
        size for size in sizes if is_lower(errors["binning"][size], min(_at(errors, size)), runs[0])
    ]
    gains = [min(_at(errors, size)) / errors["binning"][size] for size in (sizes[0], sizes[-1])]
    numbers = (
        f"first at {len(first)} of {len(sizes)} sizes; the best rival's error is {gains[0]:.2f} "
        f"times that of binning at R {sizes[0]}, {gains[1]:.2f} times at R {sizes[-1]}"
    )
    always = len(first) == len(sizes) and (len(sizes) == 1 or gains[0] >= gains[1])
    return graded(always, len(first) >= len(sizes) / 2), numbers


def _small_sizes(runs: Sequence[Record]) -> Found:
    errors, sizes = _by_method(runs, ("fourier", "nystroem"))
    sizes = [size for size in sizes if size <= 128]
    if not sizes:
        return NOT_TESTED, "no rival was run at a size up to 128"
    ahead = [
        size
        for size in sizes
        if not is_lower(min(_at(errors, size)), errors["binning"][size], runs[0])
    ]
    each = "; ".join(
        f"R {size}: {percent(errors['binning'][size])} against {percent(min(_at(errors, size)))}"
        for size in sizes
    )
    return graded(len(ahead) == len(sizes), ahead), each


def _near_exact(runs: Sequence[Record]) -> Found:
    exact = exact_kernel(runs)
    sizes = best_by_size(run for run in runs if run["method"] == "binning")
    if exact is None or not sizes:
        return NOT_TESTED, "the exact kernel was not run"
    ours, target = error(sizes[max(sizes)]), error(exact)
    near = ours <= 1.05 * target or (not is_regression(exact) and ours <= target + 0.01)
    rows, whole = exact.get("rows"), exact["data"].get("n_train")
    part = f" on {rows:,} of {whole:,} rows" if rows and whole and rows < whole else ""
    numbers = f"{percent(ours)} at R {max(sizes)}, the exact kernel {percent(target)}{part}"
    return graded(near, ours <= 1.2 * target), numbers


def _dearer(cost: Callable[[Record], float]) -> Rule:
    """A rule on how much more of ``cost`` every rival needs for the error of random binning."""

    def rule(runs: Sequence[Record]) -> Found:
        ours = best_by_size(run for run in runs if run["method"] == "binning").values()
        verdicts, said = [], []
        for rival in _RIVALS:
            theirs = list(best_by_size(r for r in runs if r["method"] == rival).values())
            if not theirs or not ours:
                continue
            factor, bound = median_factor(list(ours), theirs, cost)
            verdicts.append(NOT_TESTED if bound and factor < 10 else graded(factor >= 10))
            said.append(f"{METHODS[rival]} {'over ' if bound else ''}{factor:.3g} times")
        if not verdicts:
            return NOT_TESTED, "no rival was run"
        numbers, verdict = ", ".join(said), overall(verdicts)
        if verdict == NOT_TESTED:
            numbers += ": the rivals' largest sizes are too small to tell"
        return verdict, numbers

    return rule


def _linear_time(runs: Sequence[Record]) -> Found:
    said, good = [], []
    for method in ("binning", *_RIVALS):
        sizes = best_by_size(run for run in runs if run["method"] == method)
        if len(sizes) < 3:
            continue
        slope, _ = power_law(list(sizes), [_seconds(run) for run in sizes.values()])
        good.append(0.75 <= slope <= 1.3)
        said.append(f"{METHODS[method]} {slope:.2f}")
    if not good:
        return NOT_TESTED, "fewer than three sizes"
    verdict = graded(all(good), any(good))
    return verdict, f"time grows with R to the power: {', '.join(said)}"


def _out_of_memory(records: Sequence[Record]) -> list[Finding]:
    """The exact kernel on the paper's three largest sets."""
    found = []
    for name, runs in by_data(r for r in records if "data" in r).items():
        n = runs[0]["data"].get("n_train")
        if paper_name(runs[0]) not in _TOO_LARGE or n is None:
            continue
        needed = f"the kernel matrix of {n:,} rows takes {8 * n * n / 2**30:,.0f} GiB"
        own = [run for run in runs if run["method"] == "exact"]
        failed = [r["failed"] for r in records if "failed" in r and r.get("data_name") == name]
        verdict = NOT_TESTED
        if any("memory" in sentence for sentence in failed):
            verdict = HELD
        elif runs[0]["data"].get("kind") == "whole" and any(r.get("rows") == n for r in own):
            verdict, needed = NOT_HELD, f"it was fitted; {needed}"
        found.append(Finding(name, "published", verdict, needed))
    return found


def _twice(rule: Rule) -> Decision:
    """A rule on the runs of figure 5 as published, and on the means over the seeds of fair runs."""
    published = of_each(rule, figure=5, protocol="published")
    fair = of_each(lambda runs: rule(averaged(runs)), figure=5, protocol="fair")
    return lambda records: published(records) + fair(records)


CLAIMS = (
    Claim(
        "sparse-example",
        2,
        "Z has one 1 in every grid for every point and is sparse: 200 points on 10 grids make "
        "about 395 columns.",
        "Every row has one 1 per grid (held in part), and the number of bins is within 10 % of 395 "
        "(held).",
        _example,
    ),
    Claim(
        "together",
        3,
        "Up to the best γ, training and test error fall together as bins are added.",
        "From the least γ to the best both fall (held in part), and in the same order: rank "
        "correlation of at least 0.8 (held).",
        of_each(_together, figure=3, protocol="published", method="binning"),
    ),
    Claim(
        "apart",
        3,
        "Beyond it they part: training becomes perfect while the test error grows.",
        "At the largest γ the test error is at least 5 % above its least, and the training error "
        "falls to 5 % or less; one of the two is held in part.",
        of_each(_apart, figure=3, protocol="published", method="binning"),
    ),
    Claim(
        "slower",
        3,
        "Training takes longer the more bins there are.",
        "Rank correlation of bins and training time of at least 0.8; from 0.5 on, held in part.",
        of_each(_slower_with_columns, figure=3, protocol="published", method="binning"),
    ),
    Claim(
        "cheap",
        3,
        "At the best γ training takes little longer than at the fastest.",
        "At most twice the least time; up to five times is held in part.",
        of_each(_cheap, figure=3, protocol="published", method="binning"),
    ),
    Claim(
        "straight",
        4,
        "More grids lower the test error, close to a straight line on logarithmic axes.",
        "It falls for at least 80 % of the values of γ (held in part from 50 %), and the median R² "
        "of the lines is at least 0.9 (held).",
        of_each(_better_with_grids, figure=4, protocol="published", method="binning"),
    ),
    Claim(
        "memorises",
        4,
        "The training error can be brought to nearly nothing.",
        "At most 2 % somewhere; up to 10 % is held in part.",
        of_each(_memorises, figure=4, protocol="published", method="binning"),
    ),
    Claim(
        "best",
        5,
        "Random binning is the most accurate at every R, most clearly at small R.",
        "Less test error than every rival at every common size, by a larger factor at the least "
        "size than at the largest; at half of the sizes, held in part.",
        _twice(_best_everywhere),
    ),
    Claim(
        "small-sizes",
        5,
        "Random binning is no worse than random Fourier features and Nyström at R up to 128.",
        "At most their test error at every size up to 128; at some of them, held in part.",
        _twice(_small_sizes),
    ),
    Claim(
        "exact",
        5,
        "With many grids it comes near the exact kernel or beats it.",
        "At its largest R an error at most 5 % above that of the exact kernel, or at most one "
        "point for classes; up to 20 % is held in part.",
        _twice(_near_exact),
    ),
    Claim(
        "time",
        5,
        "The others need 10 to 1000 times the training time for the same error.",
        "Over the sizes of random binning, the median of how many times longer the fastest fit of "
        "a rival takes that is no worse; at least 10 for every rival. Where no fit of a rival is "
        "as good, its longest fit is a lower bound.",
        _twice(_dearer(lambda run: run["seconds"]["fit"])),
    ),
    Claim(
        "memory",
        5,
        "The others need 10 to 1000 times the memory for the same error.",
        "As for the time, with the numbers that are stored for a row.",
        _twice(_dearer(lambda run: run["stored_per_row"])),
    ),
    Claim(
        "linear",
        5,
        "Training time is linear in R for every method.",
        "A power of R between 0.75 and 1.3 fits every method's times; for some, held in part.",
        _twice(_linear_time),
    ),
    Claim(
        "too-large",
        5,
        "The exact kernel runs out of memory on covtype and SUSY.",
        "A run on all rows of the set failed for want of memory.",
        _out_of_memory,
    ),
    *speedups.CLAIMS,
)
"""The claims of figures 2 to 6."""


def _sweep(runs: Iterable[Record]) -> tuple[list[Record], int]:
    """The runs over γ, and where the test error is least."""
    sweep = gamma_sweep(runs)
    return sweep, sweep.index(best(sweep)) if sweep else 0


def _curves(runs: Iterable[Record], part: str) -> list[tuple[list[int], list[float]]]:
    """Errors over three sizes or more, for each γ."""
    found: dict[float, dict[int, float]] = {}
    for run in runs:
        if np.isfinite(error(run, part)):
            found.setdefault(run["gamma"], {})[run["size"]] = error(run, part)
    return [
        (sorted(curve), [curve[size] for size in sorted(curve)])
        for curve in found.values()
        if len(curve) >= 3
    ]


def _by_method(
    runs: Sequence[Record], rivals: Sequence[str] = _RIVALS
) -> tuple[dict[str, dict[int, float]], list[int]]:
    """Test errors by method and size, and the sizes that binning shares with every rival run."""
    errors: dict[str, dict[int, float]] = {}
    for method in ("binning", *rivals):
        sizes = best_by_size(run for run in runs if run["method"] == method)
        if sizes:
            errors[method] = {size: error(run) for size, run in sizes.items()}
    if "binning" not in errors or len(errors) < 2:
        return errors, []
    return errors, sorted(set.intersection(*(set(curve) for curve in errors.values())))


def _at(errors: Mapping[str, Mapping[int, float]], size: int) -> list[float]:
    """The rivals' errors at a size."""
    return [curve[size] for method, curve in errors.items() if method != "binning"]


def _rank_correlation(a: Sequence[float], b: Sequence[float]) -> float:
    if len(set(a)) == 1 or len(set(b)) == 1:
        return 0.0
    return float(spearmanr(a, b).statistic)


def _seconds(record: Record) -> float:
    return float(record["seconds"]["fit"])


def _columns(record: Record) -> int:
    return int(record.get("n_features") or record.get("n_features_joint") or 0)
