"""Hand-made records of a study of random binning: known curves, no fit behind them."""

from __future__ import annotations

import math

GAMMAS = (0.01, 0.1, 0.39, 1.12, 3.16, 10.0, 100.0)
SIZES = (8, 16, 32, 64, 128)
RIVALS = {"fourier": 2.0, "nystroem": 1.7, "blocks": 1.3}  # times the error of binning
LABELS = {
    "binning": "random binning",
    "fourier": "random Fourier",
    "nystroem": "Nyström",
    "blocks": "independent blocks",
    "exact": "exact kernel",
}


def data(name="toy", task="classification", **changes):
    found = {"name": name, "paper_name": name, "task": task, "kind": "whole", "d": 4}
    return {**found, "stand_in_for": None, "n_train": 1000, "n_test": 500, **changes}


def record(method="binning", *, size=64, gamma=1.12, test=0.1, train=0.05, fit=1.0, **changes):
    """One run; ``test`` and ``train`` are errors, whatever the task."""
    about = changes.pop("data", None) or data()

    def score(error):
        if about["task"] == "classification":
            return {"accuracy": 1 - error}
        return {"relative_rmse": error, "r2": 1 - error**2}

    n = about["n_train"]
    columns = None if size is None else int(size * (2 + 20 * gamma))
    binned = method == "binning" and changes.get("protocol", "published") == "published"
    found = {
        "record": "mercer reproduce",
        "format": 1,
        "paper": "random-binning",
        "key": "-".join(map(str, (about["name"], method, size, gamma, *sorted(changes.items())))),
        "protocol": "published",
        "scale": "tiny",
        "figures": [3, 4, 5],
        "run": "20240607T101112.000000Z-1",
        "versions": {"mercer": "0.1.0", "python": "3.11", "numpy": "2.0"},
        "machine": {"processor": "a processor", "cores": 2, "threads": 2, "system": "Linux"},
        "data": about,
        "data_name": about["name"],
        "method": method,
        "label": LABELS[method],
        "size": size,
        "gamma": gamma,
        "alpha": 0.01 / n,
        "lam_n": 0.01,
        "seed": 0,
        "n_features": columns,
        "n_features_joint": int(1.1 * columns) if binned else None,
        "score": {"test": score(test), "train": score(train)},
        "seconds": {"features": 0.2 * fit, "solve": 0.8 * fit, "fit": fit, "predict": 0.01},
        "n_iter": 20,
        "converged": True,
        "stored_per_row": n if size is None else size,
        "warnings": [],
    }
    return {**found, **changes}


def example(rows=200, grids=10, bins=41):
    indices = [
        [grid * bins + row * (grid + 3) % bins for grid in range(grids)] for row in range(rows)
    ]
    n_columns = len({column for row in indices for column in row})
    sizes = {"rows": rows, "indices": indices, "D": n_columns, "nnz": rows * grids}
    found = record(size=grids, figures=[2], protocol="example")
    return {**found, "example": {**sizes, "kappa_bar": n_columns / grids}}


def sweep(about=None, best=1.12):
    """Binning over γ and sizes: the test error is least at ``best``, the training error falls."""
    found = []
    for size in SIZES:
        for gamma in GAMMAS:
            away = abs(math.log10(gamma / best))
            shown = away if gamma > best else -away
            test = (0.02 + 0.08 * away**2) * (1 + 4 / size) + 0.2 / size
            train = 0.1 * 10 ** (-1.2 * (shown + 1)) * (1 + 8 / size) if shown > -1 else test
            fit = 1e-3 * size * (1 + 0.3 * max(0.0, shown + 1) ** 2)
            found.append(
                record(
                    size=size, gamma=gamma, test=test, train=min(test, train), fit=fit, data=about
                )
            )
    return found


def rivals(about=None, times=40.0, best=1.12):
    """The other methods: ``RIVALS`` says how much worse, ``times`` how much slower."""
    least = {run["size"]: run for run in sweep(about, best) if run["gamma"] == best}
    found = []
    for method, factor in RIVALS.items():
        for size, run in least.items():
            leading = run["score"]["test"]
            error = 1 - leading["accuracy"] if "accuracy" in leading else leading["relative_rmse"]
            fit = times * run["seconds"]["fit"]
            found.append(record(method, size=size, test=factor * error, fit=fit, data=about))
    return [*found, record("exact", size=None, test=0.022, fit=60.0, data=about)]


def fair(about=None, seeds=(0, 1, 2), worse=1.5):
    """Every method at three sizes and several seeds; the rivals' errors are ``worse`` times."""
    found = []
    for seed in seeds:
        for size in (16, 64, 256):
            for method in ("binning", *RIVALS):
                error = (0.02 + 0.5 / size) * (1 + 0.05 * seed)
                error *= 1 if method == "binning" else worse
                fit = 1e-3 * size * (1 if method == "binning" else 20)
                found.append(
                    record(
                        method,
                        size=size,
                        test=error,
                        fit=fit,
                        data=about,
                        seed=seed,
                        protocol="fair",
                        figures=[5],
                    )
                )
    return found


def study():
    """Two data sets, every figure and both protocols."""
    found = [example()]
    for about in (data(), data("prices", "regression", kind="sample", stand_in_for="costs")):
        found += [*sweep(about), *rivals(about), *fair(about)]
    return found


def csv_of(rows):
    """A file of points in the columns of the authors' data."""
    head = "figure,method,dataset,split,R,D,sigma_column,lambda,perf,train_time_s,test_time_s"
    return "\n".join([head, *(",".join(map(str, row)) for row in rows)]) + "\n"


POINTS = [
    ("fig3+fig4", "RandBin", "toy", "test", 64, 1500, 1.12, 0.01, 97.0, 0.5, 0.01),
    ("fig3+fig4", "RandBin", "toy", "train", 64, 1400, 1.12, 0.01, 99.0, 0.5, 0.01),
    ("fig5 (columns 1-2)", "RandBin", "toy", "test", 64, 1500, 1.12, 0.01, 97.0, 0.5, 0.01),
    ("fig5 (columns 1-2)", "FOURIER", "toy", "test", 64, 64, 2.0, 0.01, 90.0, 0.5, 0.01),
    ("fig5 (columns 1-2)", "STANDARD", "toy", "test", "exact", 1000, 2.0, 0.01, 97.5, 9.0, 1.0),
]
