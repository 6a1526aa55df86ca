"""Dual support vector machines and doubly stochastic gradients against their peers.

Default stopping: seconds of fits whose pairs violate optimality by a thousandth at most, one after
the other, with the dual objective and the violation that they reached, computed afresh in float64.
ThunderSVM runs if it is there (thundersvm-cpu).

Paths: seconds of fits with one C, or one gamma, after the other, cold and from the solution before.

Dual machines: seconds until the duality gap is a thousandth of the objective. LIBSVM, that is
scikit-learn's SVC, is given the loosest tolerance of a few that gets there; others stop by the gap
itself. Machines without an intercept solve a problem of their own, and their gap is that of it.

Doubly stochastic gradients: accuracy on held-out rows and seconds after some numbers of steps,
beside kernel machines with all features in memory.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from _side_by_side import environment, table
from mercer import DoublySGDClassifier, KernelClassifier, datasets
from mercer.designs import KernelColumns
from mercer.kernels import Gaussian
from mercer.solvers import BoxDual, PairwiseCD
from mercer.solvers.dual import DualSolver, DualState

try:
    import thundersvm
except ImportError:
    thundersvm = None

# Data, gamma for inputs from 0 to 1, C: settings that the papers print, or near them.
DATA = {
    "ijcnn1-train": (2.0, 32.0),
    "cod-rna-train": (8.0, 32.0),
    "covtype-sample": (32.0, 32.0),
}
GAP = 1e-3
TOLERANCES = (1.0, 0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 1e-4)
STEPS = (5, 10, 20, 40)

SOLVERS: dict[str, DualSolver] = {
    f"{name}, {jobs} thread{'s' * (jobs > 1)}": solver
    for jobs in (1, 2)
    for name, solver in {
        "pairs": PairwiseCD(tol=1e-6, n_jobs=jobs),
    }.items()
    if jobs > 1 or "k-means" not in name
}


def rows_of(name: str, n: int, seed: int = 0) -> tuple[NDArray, NDArray, NDArray, NDArray]:
    """Rows to fit and rows to judge by, inputs from 0 to 1 and targets ±1."""
    data = datasets.load(name)
    X = data.X.toarray() if sparse.issparse(data.X) else np.asarray(data.X)
    X, labels = X.astype(np.float64), np.asarray(data.y)
    X = (X - X.min(axis=0)) / np.maximum(np.ptp(X, axis=0), 1e-12)
    order = np.random.default_rng(seed).permutation(len(X))
    n = min(n, len(X) * 4 // 5)
    y = np.where(labels == np.unique(labels)[-1], 1.0, -1.0)
    fit, judge = order[:n], order[n : n + 10_000]
    return X[fit], y[fit], X[judge], y[judge]


def by_gap(solver: DualSolver, dual: BoxDual, kernel: Gaussian, X: NDArray, cap: float) -> str:
    """Seconds to the gap, the gap, and what it took."""

    def is_there(state: DualState) -> bool:
        intercept = state.dual.intercept(state.b, state.sums) if solver.has_intercept else 0.0
        primal = state.dual.primal(state.b, state.sums, intercept)
        gap = primal + state.dual.value(state.b, state.sums)
        return bool(gap <= GAP * primal) or time.perf_counter() - start > cap

    start = time.perf_counter()
    machine = solver.prepare(kernel, X)
    prepared = time.perf_counter() - start
    found = machine.solve(dual, is_there)
    seconds = prepared + found.trace[-1].time
    gap = found.dual_gap / found.objective
    over = "> " if gap > GAP else ""
    return f"{over}{seconds:.2f} s, {found.n_iter} steps, {found.n_rows_made} rows"


def libsvm(dual: BoxDual, kernel: Gaussian, C: float, X: NDArray, y: NDArray, cap: float) -> str:
    for tol in TOLERANCES:
        start = time.perf_counter()
        model = SVC(C=C, gamma=kernel.gamma, tol=tol).fit(X, y)
        seconds = time.perf_counter() - start
        b, sums = np.zeros(len(y)), np.zeros(len(y))
        b[model.support_] = model.dual_coef_[0]
        for rows in np.array_split(np.arange(len(y)), 1 + len(y) // 2000):
            sums[rows] = kernel(X[rows], X[model.support_]) @ model.dual_coef_[0]
        intercept = float(model.intercept_[0])
        primal = dual.primal(b, sums, intercept)
        if dual.gap(b, sums, intercept) <= GAP * primal or seconds > cap:
            return f"{seconds:.2f} s, {int(model.n_iter_[0])} steps (tol {tol:g})"
    return f"> {seconds:.2f} s"


def fits_by_default(
    problem: tuple[BoxDual, Gaussian, NDArray, NDArray], C: float, jobs: list[int], repeats: int
) -> tuple[dict[str, list[float]], dict[str, NDArray]]:
    """Seconds of fits of each solver by its own default stopping, in turn, and its weights."""
    dual, kernel, X, y = problem
    solvers: dict[str, Callable[[], NDArray]] = {
        f"mercer, {k} thread{'s' * (k > 1)}": partial(of_mercer, dual, kernel, X, k) for k in jobs
    }
    solvers["SVC"] = partial(of_libsvm, SVC(C=C, gamma=kernel.gamma), X, y)
    if thundersvm is not None:
        peer = thundersvm.SVC(C=C, gamma=kernel.gamma, n_jobs=1, max_mem_size=200)
        solvers["ThunderSVM, 1 thread"] = partial(of_libsvm, peer, X, y)
    seconds: dict[str, list[float]] = {label: [] for label in solvers}
    found = {}
    for _ in range(repeats):
        for label, fit in solvers.items():
            start = time.perf_counter()
            found[label] = fit()
            seconds[label].append(time.perf_counter() - start)
    return seconds, found


def by_default(
    names: list[str], n: int, seed: int, jobs: list[int], repeats: int
) -> Iterator[dict[str, str]]:
    """A table of fits by default."""
    for name in names:
        gamma, C = DATA[name]
        X, y, _, _ = rows_of(name, n, seed)
        dual, kernel = BoxDual.hinge(y, C), Gaussian(gamma)
        seconds, found = fits_by_default((dual, kernel, X, y), C, jobs, repeats)
        for label, b in found.items():
            sums = KernelColumns(X, kernel, X[b != 0]).matvec(b[b != 0])
            time_of = {key: statistics.median(values) for key, values in seconds.items()}
            yield {
                "default stopping": f"{name}, {len(y)} rows",
                "solver": label,
                "seconds": f"{time_of[label]:.2f}",
                "SVC's / its": f"{time_of['SVC'] / time_of[label]:.1f}x",
                "dual objective": f"{dual.value(b, sums):.3f}",
                "violation": f"{dual.violation(b, sums):.2g}",
                "support vectors": str(np.count_nonzero(b)),
            }


def paths(names: list[str], n: int, seed: int, n_jobs: int) -> Iterator[dict[str, str]]:
    """Several C, then several gamma, one after the other: cold, or from the solution before."""
    for name in names:
        gamma, most = DATA[name]
        X, y, _, _ = rows_of(name, n, seed)
        grids = {
            "C": [(gamma, most / 2**k) for k in (5, 4, 3, 2, 1, 0)],
            "gamma": [(gamma * 1.25**k, most) for k in (-2, -1, 0, 1, 2)],
        }
        for title, settings in grids.items():
            seconds = {}
            for way in ("cold", "from the one before"):
                start, before, begun = None, None, time.perf_counter()
                machine, made_for = None, None
                for scale, C in settings:
                    if scale != made_for:
                        made_for = scale
                        machine = PairwiseCD(n_jobs=n_jobs).prepare(Gaussian(scale), X)
                    dual = BoxDual.hinge(y, C)
                    if way != "cold" and before is not None:
                        start = dual.start(before, start)
                    b = machine.solve(dual, start=start).b
                    if way != "cold":
                        start, before = b, dual
                seconds[way] = time.perf_counter() - begun
            yield {
                "path": f"{name}, {len(y)} rows, {len(settings)} values of {title}",
                **{way: f"{taken:.2f} s" for way, taken in seconds.items()},
                "cold / warm": f"{seconds['cold'] / seconds['from the one before']:.2f}x",
            }


def of_mercer(dual: BoxDual, kernel: Gaussian, X: NDArray, n_jobs: int) -> NDArray:
    return PairwiseCD(n_jobs=n_jobs).solve(dual, kernel, X).b


def of_libsvm(model: Any, X: NDArray, y: NDArray) -> NDArray:
    model.fit(X, y)
    coef, b = model.dual_coef_, np.zeros(len(y))
    coef = (coef.toarray() if sparse.issparse(coef) else np.asarray(coef)).ravel()
    b[np.asarray(model.support_, dtype=int)] = coef
    # ThunderSVM takes the class of the first row for the positive one.
    return b if np.sum(b * y) > 0 else -b


def duals(names: list[str], n: int, cap: float) -> Iterator[dict[str, str]]:
    for name in names:
        gamma, C = DATA[name]
        X, y, _, _ = rows_of(name, n)
        dual, kernel = BoxDual.hinge(y, C), Gaussian(gamma)
        case = f"{name}, {len(y)} rows"
        yield {"seconds to the gap": case, "solver": "SVC"} | {
            "reached": libsvm(dual, kernel, C, X, y, cap)
        }
        for label, solver in SOLVERS.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                reached = by_gap(solver, dual, kernel, X, cap)
            yield {"seconds to the gap": case, "solver": label, "reached": reached}


def gradients(names: list[str], n: int) -> Iterator[dict[str, str]]:
    for name in names:
        X, y, X_new, y_new = rows_of(name, n)
        X, X_new = X.astype(np.float32), X_new.astype(np.float32)
        case = f"{name}, {len(y)} rows"
        peers = {
            "all features: fourier, 1000": KernelClassifier(
                "fourier", n_components=1000, loss="logistic", random_state=0
            ),
            "all features: fourier, 4000": KernelClassifier(
                "fourier", n_components=4000, loss="logistic", random_state=0
            ),
            "all features: binning": KernelClassifier(random_state=0),
        }
        ours = {
            f"doubly stochastic, {steps} steps{'' if quick else ', plain'}": DoublySGDClassifier(
                max_iter=steps, preconditioned=quick, random_state=0
            )
            for quick in (True, False)
            for steps in STEPS
        }
        for label, model in (peers | ours).items():
            start = time.perf_counter()
            model.fit(X, y)
            fitted = time.perf_counter()
            score = model.score(X_new, y_new)
            done = time.perf_counter()
            yield {
                "accuracy on held-out rows": case,
                "model": label,
                "accuracy": f"{score:.4f}",
                "fit": f"{fitted - start:.2f} s",
                f"predict {len(y_new)}": f"{done - fitted:.2f} s",
            }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=list(DATA), choices=list(DATA))
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--cap", type=float, default=60.0, help="seconds per solver")
    parser.add_argument("--only", choices=["defaults", "paths", "duals", "gradients"])
    parser.add_argument("--seed", type=int, default=0, help="of the choice of rows")
    parser.add_argument("--jobs", type=int, nargs="+", default=[1], help="threads, by default")
    parser.add_argument("--repeats", type=int, default=1, help="of fits by default")
    options = parser.parse_args()
    facts = ", ".join(f"{name} {value}" for name, value in environment().items() if value)
    sys.stdout.write(f"{__doc__.splitlines()[0]}\n{facts}\n")
    kinds = {
        "defaults": lambda: by_default(
            options.data, options.rows, options.seed, options.jobs, options.repeats
        ),
        "paths": lambda: paths(options.data, options.rows, options.seed, options.jobs[0]),
        "duals": lambda: duals(options.data, options.rows, options.cap),
        "gradients": lambda: gradients(options.data, options.rows),
    }
    for kind, lines in kinds.items():
        if options.only in (None, kind):
            sys.stdout.write("\n" + table(list(lines())) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
