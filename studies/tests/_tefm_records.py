"""Hand-made records of a TEFM study: known power laws, no fit behind them."""

from __future__ import annotations

from mercer_studies.tefm.grid import METHODS

SIZES = (50, 100, 200, 400)


def data(name="toy", **changes):
    found = {"name": name, "paper_name": name, "task": "regression", "kind": "whole", "d": 4}
    return {**found, "stand_in_for": None, "n_train": 1000, "n_test": 500, **changes}


def record(method, size, *, seed=0, **changes):
    about = changes.pop("data", None) or data()
    found = {
        "record": "mercer reproduce",
        "format": 1,
        "paper": "tefm",
        "key": f"{about['name']}-{method}-{size}-{seed}-{sorted(changes.items())}",
        "protocol": "fair",
        "scale": "tiny",
        "figures": [1],
        "run": "20240607T101112.000000Z-1",
        "versions": {"mercer": "0.1.0"},
        "machine": {"processor": "a processor", "threads": 2},
        "data": about,
        "data_name": about["name"],
        "method": method,
        "label": METHODS[method].label,
        "size": size,
        "seed": seed,
        "rows": 800,
        "gamma": 0.5,
        "seconds": {"features": 1e-3 * (size or 1), "fit": 1e-3 * (size or 1)},
        "warnings": [],
    }
    return {**found, **changes}


def kernel(method, size, spectral, **changes):
    """One run of figure 1; the Frobenius error is twice the spectral one."""
    score = {"kernel": {"spectral": spectral, "frobenius": 2 * spectral}}
    return record(method, size, score=score, **changes)


def ridge(method, size, error, seconds, **changes):
    """One run of figures 2 and 3; a tenth of the time goes into features."""
    score = {"test": {"relative_rmse": error, "r2": 0.5}, "train": {"relative_rmse": error / 2}}
    times = {"features": 0.1 * seconds, "solve": 0.9 * seconds, "fit": seconds}
    changes = {"figures": [2, 3], **changes}
    return record(method, size, score=score, seconds=times, **changes)


def timed(method, rows, n_base, size, varied, features, solve):
    return record(
        method,
        size,
        protocol="timing",
        figures=[3],
        rows=rows,
        n_base=n_base,
        varied=varied,
        seconds={"features": features, "solve": solve, "fit": features + solve},
    )


def kernels(half=0.5, comp=2.0, s=1.05, square=1.0, power=0.5, about=None):
    """Figure 1: RKS falls like l^-power; the others are so many times its error."""
    found = []
    times = {"quasi": 0.9, "fastfood": 1.1, "comp": comp, "tefm-g": half, "tefm-s": s * half}
    times |= {"tefm-g0": 1.02 * half, "orthogonal": 0.8, "nystroem": 0.1, "rpcholesky": 0.05}
    for seed in (0, 1):
        level = 1.0 + 0.1 * seed
        for size in sorted({*SIZES, 800, 1600, *(s**2 for s in (30, 50, 100))}):
            rks = level * size**-power
            found.append(kernel("rks", size, rks, seed=seed, data=about))
            if size in SIZES:
                found += [
                    kernel(method, size, factor * rks, seed=seed, data=about)
                    for method, factor in times.items()
                ]
        for size in (30, 50, 100):
            error = square * level * size ** (-2 * power)
            found.append(kernel("tefm-square", size, error, seed=seed, data=about))
    return found


def regressions(features=3.0, seconds=2.0, about=None):
    """Figures 2 and 3: rivals need so many times the features, and the seconds, for an error.

    The factor of the seconds is that at the least size; it grows with the size.
    """
    found = []
    for seed in (0, 1):
        for size in (50, 100, 200, 400, 800, 1600, 3200):
            for method in ("rks", "quasi", "comp", "fastfood"):
                found.append(ridge(method, size, size**-0.5, 1e-3 * size, seed=seed, data=about))
        for size in (50, 100, 200, 400):
            for method in ("tefm-g", "tefm-s"):
                theirs = features * size
                error, cost = theirs**-0.5, 1e-3 * theirs / seconds * (size / 50) ** -0.1
                found.append(ridge(method, size, 1.001 * error, cost, seed=seed, data=about))
    return [*found, ridge("blocks", None, 0.01, 9.0, data=about)]


def times(solve=2.0):
    """Table 1 as it says, but for the power of l in the solution."""
    found = []
    for method in ("rks", "tefm-g", "tefm-s"):
        for n in (1000, 2000, 4000):
            found.append(timed(method, n, 512, 64, "n", 1e-6 * n, 1e-6 * n))
        for size in (32, 64, 128):
            found.append(timed(method, 1000, 512, size, "l", 1e-3 * size, 1e-6 * size**solve))
        for base in (256, 512, 1024):
            if method != "rks":
                found.append(timed(method, 1000, base, 64, "d", 1e-4 * base, 1e-3))
    return found


def study():
    other = data("prices", kind="stand-in", stand_in_for="costs")
    found = times()
    for about in (data(), other):
        found += [*kernels(about=about), *regressions(about=about)]
    return found
