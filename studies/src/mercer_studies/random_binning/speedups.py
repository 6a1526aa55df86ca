"""Claims of the random binning paper on parallel coordinate descent, with their rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mercer_studies.claims import NOT_TESTED, Claim, Decision, Finding, Found, Rule, graded
from mercer_studies.queries import Record, by_data
from mercer_studies.random_binning.parallel import FIGURE
from mercer_studies.random_binning.speedup_figures import MODES, curves, guaranteed, kappa, speedups

_LINEAR, _SOME, _NONE = 0.75, 0.6, 1.15
_FAR = 16  # processors from which "hardly any gain" can be told from some


def _of_each(rule: Rule) -> Decision:
    """A decision that takes one data set after the other."""

    def decide(records: Sequence[Record]) -> list[Finding]:
        known = list(records)
        runs = by_data([*curves(known, "measured"), *curves(known, "simulated")])
        return [Finding(name, "published", *rule(own)) for name, own in runs.items()]

    return decide


# --- measured --------------------------------------------------------------------------------


def _linear(runs: Sequence[Record]) -> Found:
    """Threads that own columns of random binning."""
    tau, reached, numbers = _with_most_threads(runs, "binning")
    if tau is None:
        return NOT_TESTED, numbers
    share = reached / tau
    return graded(share >= _LINEAR, share >= _SOME), numbers


def _no_gain(runs: Sequence[Record]) -> Found:
    """Threads that own columns of random Fourier features."""
    tau, reached, numbers = _with_most_threads(runs, "fourier")
    if tau is None:
        return NOT_TESTED, numbers
    verdict = graded(reached <= _NONE, reached / tau < _LINEAR)
    return verdict, numbers


def _with_most_threads(runs: Sequence[Record], method: str) -> tuple[int | None, float, str]:
    """Threads, the speed-up of the lock-free runs, and those of all modes in words."""
    found = {run["mode"]: speedups(run) for run in curves(runs, "measured", method)}
    most = max((tau for values in found.values() for tau in values), default=1)
    if most < 2 or most not in found.get("async", {}):
        return None, 0.0, "one thread alone was measured"
    said = [f"{MODES[mode]} {values[most]:.2f}" for mode, values in found.items() if most in values]
    [run] = curves(runs, "measured", method, "async")
    alone = next(point["seconds"] for point in run["curve"] if point["tau"] == 1)
    numbers = f"{most} threads: {', '.join(said)} times; {_seconds(alone)} with one"
    return most, found["async"][most], f"{numbers}; {_fastest(runs, method)}"


def _fastest(runs: Sequence[Record], method: str) -> str:
    """The least seconds of all modes and numbers of threads, in words."""
    seconds, tau, mode = min(
        (point["seconds"], point["tau"], run["mode"])
        for run in curves(runs, "measured", method)
        for point in run["curve"]
    )
    threads = "one thread" if tau == 1 else f"{tau} threads"
    return f"least of all {_seconds(seconds)}: {MODES[mode]}, {threads}"


# --- simulated -------------------------------------------------------------------------------


def _in_rounds(runs: Sequence[Record]) -> Found:
    """Random binning up to a quarter of κ̄ processors."""
    safe = curves(runs, "simulated", "binning", "safe")
    if not safe:
        return NOT_TESTED, "nothing was simulated"
    [run] = safe
    limit, reached = kappa(run) / 4, speedups(run)
    taus = [point["tau"] for point in run["curve"] if 1 < point["tau"] <= limit]
    if not taus:
        return NOT_TESTED, f"κ̄ is {kappa(run):.3g}: too few bins for two processors"
    shares = [reached.get(tau, 0.0) / tau for tau in taus]
    numbers = f"κ̄ {kappa(run):.3g}: {_listed(reached, taus)}"
    least = min(shares)
    return graded(least >= _LINEAR, least >= _SOME), numbers


def _as_guaranteed(runs: Sequence[Record]) -> Found:
    """S(τ) against the rounds of safe steps."""
    safe = curves(runs, "simulated", "binning", "safe")
    if not safe:
        return NOT_TESTED, "nothing was simulated"
    [run] = safe
    reached, sure = speedups(run), guaranteed(run)
    taus = [tau for tau in sure if tau > 1]
    shares = [reached.get(tau, 0.0) / sure[tau] for tau in taus]
    numbers = f"κ̄ {kappa(run):.3g}: {_listed(reached, taus)}; S(τ) {_listed(sure, taus)}"
    least = min(shares, default=0.0)
    return graded(least >= 0.9, least >= _LINEAR), numbers


def _dense(runs: Sequence[Record]) -> Found:
    """Random Fourier features in rounds, safe steps beside plain ones."""
    safe = curves(runs, "simulated", "fourier", "safe")
    if not safe:
        return NOT_TESTED, "nothing was simulated"
    [run] = safe
    reached = speedups(run)
    taus = [tau for tau in reached if tau >= _FAR]
    if not taus:
        return NOT_TESTED, f"fewer than {_FAR} processors were simulated"
    numbers = f"safe steps {_listed(reached, taus)}"
    for other in curves(runs, "simulated", "fourier", "plain"):
        lost = [point["tau"] for point in other["curve"] if point["tau"] not in speedups(other)]
        numbers += f"; plain steps fail from {min(lost)} processors on" if lost else ""
    most = max(reached[tau] / tau for tau in taus)
    return graded(most <= 0.15, most <= 0.5), numbers


def _listed(values: Mapping[int, float], taus: Sequence[int]) -> str:
    known = (f"{values[tau]:.3g} at {tau}" if tau in values else f"none at {tau}" for tau in taus)
    return ", ".join(known)


def _seconds(value: float) -> str:
    return f"{1e3 * value:.3g} ms" if value < 1 else f"{value:.3g} s"


CLAIMS = (
    Claim(
        "threads",
        FIGURE,
        "On random binning coordinate descent is sped up nearly linearly by threads.",
        "With all threads there are, each moving columns of its own without waiting, at least 0.75 "
        "times as many times faster to the same duality gap; 0.6 is held in part.",
        _of_each(_linear),
    ),
    Claim(
        "threads-fourier",
        FIGURE,
        "On random Fourier features threads gain nothing.",
        "Likewise at most 1.15 times faster; less than 0.75 times the number of threads is held in "
        "part.",
        _of_each(_no_gain),
    ),
    Claim(
        "rounds",
        FIGURE,
        "On random binning rounds fall nearly linearly with processors while Z is very sparse.",
        "Simulated, safe steps: at every number of processors up to κ̄/4 at least 0.75 times as "
        "many times fewer rounds; 0.6 is held in part.",
        _of_each(_in_rounds),
    ),
    Claim(
        "guarantee",
        FIGURE,
        "S(τ) is guaranteed.",
        "Simulated, safe steps: the speed-up in rounds is at least 0.9 S(τ) at every τ; 0.75 is "
        "held in part.",
        _of_each(_as_guaranteed),
    ),
    Claim(
        "rounds-fourier",
        FIGURE,
        "For random Fourier features no speed-up is guaranteed: S(τ) is 1.",
        f"Simulated, safe steps, {_FAR} processors or more: at most 0.15 times as many times fewer "
        "rounds; half is held in part.",
        _of_each(_dense),
    ),
)
"""The claims of figure 6."""
