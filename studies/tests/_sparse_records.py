"""Hand-made records of a study of sparse random features: known numbers, no fit behind them."""

from __future__ import annotations

from mercer_studies.sparse_features.figures import allowed
from mercer_studies.sparse_features.grid import LAMBDAS, METHODS

KERNELS = ("gaussian", "laplacian", "perceptron")


def data(name="toy", paper_name=None, task="classification", **changes):
    found = {"name": name, "paper_name": paper_name or name, "task": task, "kind": "whole", "d": 4}
    return {**found, "stand_in_for": None, "n_train": 1000, "n_test": 500, **changes}


def record(method, *, about=None, **changes):
    about = about or data()
    found = {
        "record": "mercer reproduce",
        "format": 1,
        "paper": "sparse-features",
        "key": f"{about['name']}-{method}-{sorted(changes.items(), key=str)}",
        "protocol": "published",
        "scale": "tiny",
        "run": "20240607T101112.000000Z-1",
        "versions": {"mercer": "0.1.0"},
        "machine": {"processor": "a processor", "threads": 2},
        "data": about,
        "data_name": about["name"],
        "method": method,
        "label": METHODS.get(method, "Boosting, perceptron"),
        "size": 1000,
        "seed": 0,
        "lam_n": 1.0,
        "rows": 800,
        "test_rows": 500,
        "warnings": [],
    }
    return {**found, **changes}


def cell(family, kernel, *, error, size, fit=1.0, predict=1.0, added=1e8, about=None, **changes):
    """One cell of a table; ``error`` is the relative error, or the share of wrong classes."""
    about = about or data()
    if about["task"] == "regression":
        score, table = {"relative_rmse": error, "rmse": error / 2}, "Table 1"
    else:
        score, table = {"accuracy": 1 - error}, "Table 2"
    return record(
        f"{family}-{kernel}",
        about=about,
        figures=[table],
        family=family,
        kernel=kernel,
        model_size=size,
        score={"test": score},
        seconds={"fit": fit, "predict": predict, "choose": 0.5},
        memory={"added": added},
        **changes,
    )


def row(about=None, *, norm=2.0, worse=0.0, kept=50, sparse_predict=0.1, sparse_added=1e7):
    """All cells of one data set; Sparse-RF at n λ = 10 has the error of RF and thrice ``kept``."""
    ours = {"fit": 0.5, "predict": sparse_predict, "added": sparse_added, "about": about}
    found = []
    for kernel in KERNELS:
        found.append(cell("kernel", kernel, error=0.1, size=700, about=about, norm=norm))
        found.append(cell("rf", kernel, error=0.101, size=1000, about=about))
        for i, (lam_n, error) in enumerate(zip(LAMBDAS, (0.4, 0.2, 0.102, 0.06), strict=True)):
            size = kept * (i + 1)
            found.append(
                cell("sparse", kernel, error=error + worse, size=size, lam_n=lam_n, **ours)
            )
    return found


def course(method, objectives, errors, step, about=None):
    drawn = [step * i for i in range(len(objectives))]
    return record(
        method,
        about=about,
        figures=[1],
        score={"test": {"accuracy": 1 - errors[-1]}},
        seconds={"fit": 1.0},
        model_size=5,
        course={
            "drawn": drawn,
            "active": drawn,
            "seconds": [0.1 * i for i in range(len(objectives))],
            "objective": list(objectives),
            "error": list(errors),
        },
    )


def searches(reached=0.2, boosting=0.4, wrong=0.05, norm=2.0, level=0.25, about=None):
    """The figure on one set: the bound is kept as long as ``reached`` is below the level."""
    exact = record(
        "kernel-perceptron",
        about=about,
        figures=[1],
        size=None,
        norm=norm,
        objective=level,
        score={"test": {"accuracy": 0.95}},
    )
    steps = [100 * i for i in range(1, 11)]
    bounds = allowed({"objective": level, "norm": norm}, steps).tolist()
    ours = [min(1.0, reached + 0.5 * (bound - level)) for bound in bounds]
    ours[-1] = reached
    return [
        exact,
        course("sparse-perceptron", [1.0, *ours], [0.5, *[wrong] * 10], 100, about),
        course("boosting-perceptron", [1.0, 0.6, boosting], [0.5, 0.2, 0.1], 1, about),
    ]


def study():
    prices = data("prices", "Prices", "regression")
    homes = data("homes", "Census", "regression", kind="stand-in", stand_in_for="census")
    easy, hard = data("easy", "Cod-RNA"), data("forest", "Covtype", kind="sample")
    hard["stand_in_for"] = "covtype"
    found = [*row(prices), *row(homes), *row(easy), *row(hard, norm=20.0, kept=57)]
    for about in (easy, hard):
        found += searches(about=about)
    return found
