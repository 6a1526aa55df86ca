"""L1 problems on explicit random features: mercer's coordinate descent against other solvers.

Matrices are random binning (256 grids) and random Fourier features (2000, float64) of data sets
that users have; the peers get the binned matrix in compressed sparse columns. Every contender runs
in a process of its own, is killed at a cap, and its answer is judged by one function: the duality
gap relative to the objective without weights. A row says the seconds, the gap reached and the
non-zeros; "missed" marks a gap above 1.5 times the one asked for; the last columns are seconds of
the best peer relative to ours with one thread, and ours with one thread relative to two, of the
linear algebra too. Peers that are not installed are left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import multiprocessing
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.linear_model import Lasso, LogisticRegression
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from _side_by_side import environment, table
from mercer import datasets
from mercer.designs import Binned, Dense, Design
from mercer.losses import Logistic, Loss, Squared, SquaredHinge
from mercer.maps import RandomBinning, RandomFourier
from mercer.penalties import L1
from mercer.problem import Problem, dual_gap
from mercer.solvers import CoordinateDescent

LOSSES: dict[str, Loss] = {
    "squared": Squared(),
    "logistic": Logistic(),
    "squared_hinge": SquaredHinge(),
}
DATA = {  # γ, for inputs of variance one but for those that come as they should be
    "ijcnn1-train": 0.3,
    "cod-rna-train": 0.5,
    "covtype-sample": 0.15,
    "a9a": 0.05,
    "letter": 0.25,
}
AS_THEY_ARE = ("ijcnn1-train", "a9a")
ROWS = 50_000
SLACK = 1.5
OURS = "mercer"


@dataclass
class Task:
    """One problem, as everybody gets it: no intercept, targets ±1 (of mean zero if squared)."""

    design: Design
    matrix: Any
    y: NDArray
    loss: Loss
    alpha: float

    def problem(self, n_jobs: int = 1) -> Problem:
        if isinstance(self.design, Dense):
            self.design = Dense(self.design.array, n_jobs)
        else:
            self.design.n_threads = n_jobs
        return Problem(self.design, self.y, self.loss, L1(self.alpha), None, False)

    def touch(self) -> None:
        """Bring both forms into memory: what others did not need may have been moved out of it."""
        self.design.column_sqnorms()
        abs(self.matrix).max()

    def gap(self, coef: NDArray) -> float:
        """The duality gap relative to F without weights, the sum of both over the outputs."""
        problem = self.problem()
        gap = dual_gap(problem.at(coef.reshape(problem.shape).astype(problem.dtype)))
        return float(gap) / problem.value(problem.initial())


Solve = Callable[[Task, float], NDArray]


def ours(n_jobs: int) -> Solve:
    def solve(task: Task, tol: float) -> NDArray:
        with threadpool_limits(n_jobs):
            return CoordinateDescent(tol=tol).solve(task.problem(n_jobs)).coef

    return solve


def each_output(fit: Callable[[Task, NDArray, float], NDArray]) -> Solve:
    """For solvers of one output."""

    def solve(task: Task, tol: float) -> NDArray:
        if task.y.ndim == 1:
            return fit(task, task.y, tol)
        return np.stack([fit(task, y, tol) for y in task.y.T], axis=1)

    return solve


def scikit_learn(task: Task, y: NDArray, tol: float) -> NDArray:
    model = Lasso(task.alpha, fit_intercept=False, tol=tol, max_iter=100_000)
    return model.fit(task.matrix, y).coef_


def liblinear(task: Task, y: NDArray, tol: float) -> NDArray:
    settings = {"C": 1 / (len(y) * task.alpha), "fit_intercept": False, "max_iter": 100_000}
    if isinstance(task.loss, Logistic):
        model = LogisticRegression(l1_ratio=1.0, solver="liblinear", tol=tol, **settings)
    else:
        model = LinearSVC(penalty="l1", dual=False, tol=tol, **settings)
    return model.fit(task.matrix, y).coef_[0]


def celer(task: Task, y: NDArray, tol: float) -> NDArray:
    import celer as package

    if isinstance(task.loss, Squared):
        model = package.Lasso(alpha=task.alpha, fit_intercept=False, tol=tol)
    else:
        C = 1 / (len(y) * task.alpha)
        model = package.LogisticRegression(C=C, fit_intercept=False, tol=tol)
    return model.fit(task.matrix, y).coef_.ravel()


def skglm(task: Task, y: NDArray, tol: float) -> NDArray:
    from skglm import GeneralizedLinearEstimator, datafits, penalties, solvers

    if isinstance(task.loss, Squared):
        datafit = datafits.Quadratic()
        solver = solvers.AndersonCD(tol=0.3 * tol * task.alpha, fit_intercept=False)
    else:
        datafit = datafits.Logistic()
        solver = solvers.ProxNewton(tol=0.3 * tol * task.alpha, fit_intercept=False)
    model = GeneralizedLinearEstimator(datafit, penalties.L1(task.alpha), solver)
    return model.fit(task.matrix, y).coef_.ravel()


def contenders(loss: str) -> dict[str, Solve]:
    """Everybody who minimises that loss and is installed; ours first."""
    found = {OURS: ours(1), f"{OURS}, 2 threads": ours(2)}
    if loss == "squared":
        found["scikit-learn"] = each_output(scikit_learn)
    else:
        found["LIBLINEAR"] = each_output(liblinear)
    for name, fit in (("celer", celer), ("skglm", skglm)):
        if loss != "squared_hinge" and importlib.util.find_spec(name):
            found[name] = each_output(fit)
    return found


def timed(solve: Solve, task: Task, tol: float, cap: float) -> tuple[float, NDArray] | None:
    """Seconds and coefficients, or None at the cap."""
    context = multiprocessing.get_context("fork")
    ours_end, theirs = context.Pipe(duplex=False)

    def run() -> None:
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore")
            task.touch()
            start = time.perf_counter()
            coef = solve(task, tol)
            theirs.send((time.perf_counter() - start, np.asarray(coef)))

    process = context.Process(target=run)
    process.start()
    try:
        return ours_end.recv() if ours_end.poll(cap) else None
    except EOFError:
        return None
    finally:
        process.kill()
        process.join()


def warm_up(names: dict[str, Solve], loss: Loss) -> None:
    """Let compilers run before the clock does."""
    rng = np.random.default_rng(0)
    Z = sparse.random_array((60, 12), density=0.5, rng=rng, format="csc")
    y = np.where(rng.random(60) < 0.5, -1.0, 1.0)
    for matrix, design in ((Z, Dense(Z.toarray())), (np.asfortranarray(Z.toarray()), None)):
        task = Task(design or Dense(Z.toarray()), matrix, y, loss, 0.01)
        for solve in names.values():
            solve(task, 1e-3)


def matrices(name: str, options: argparse.Namespace) -> Iterator[tuple[str, Design, Any, NDArray]]:
    """(kind, design, what peers get, indicator targets ±1) of one data set."""
    data = datasets.load(name)
    X = data.X.toarray() if sparse.issparse(data.X) else np.asarray(data.X)
    X, labels = X[:ROWS].astype(np.float64), np.asarray(data.y)[:ROWS]
    classes = np.unique(labels)
    y = np.where(labels[:, None] == (classes if len(classes) > 2 else classes[1:]), 1.0, -1.0)
    y = y[:, 0] if y.shape[1] == 1 else y
    if name not in AS_THEY_ARE:
        X = StandardScaler().fit_transform(X)
    gamma = options.gamma or DATA[name]
    how = {"gamma": gamma, "random_state": options.seed}
    if "binning" in options.features:
        binned = RandomBinning(n_components=options.grids, **how).fit_design(X)
        if isinstance(binned, Binned):
            yield "binning", binned, sparse.csc_array(binned.tocsr()), y
    if "fourier" in options.features:
        fourier = RandomFourier(n_components=2000, **how).fit_transform(X)
        yield "fourier", Dense(fourier), np.asfortranarray(fourier), y


Entry = tuple[dict[str, str], float]


def row(name: str, solve: Solve, task: Task, tol: float, cap: float) -> Entry:
    """One entry of the table, and the seconds, infinite where the answer is not good enough."""
    answer = timed(solve, task, tol, cap)
    if answer is None:
        return {name: f"> {cap:.0f} s"}, np.inf
    seconds, coef = answer
    gap = task.gap(coef)
    missed = gap > SLACK * tol
    text = f"{seconds:.3f} s, {gap:.0e}{' missed' if missed else ''}, {np.count_nonzero(coef)}"
    return {name: text}, np.inf if missed else seconds


def compared(seconds: dict[str, float]) -> dict[str, str]:
    """The last columns, of those who take part."""
    ours, two = seconds.get(OURS), seconds.get(f"{OURS}, 2 threads")
    peers = [each for name, each in seconds.items() if not name.startswith(OURS)]
    entries = {}
    if ours and peers:
        entries["best peer / ours"] = f"{min(peers) / ours:.1f}x"
    if ours and two:
        entries["1 / 2 threads"] = f"{ours / two:.2f}x"
    return entries


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=list(DATA), choices=list(DATA))
    parser.add_argument("--features", nargs="+", default=["binning", "fourier"])
    parser.add_argument("--losses", nargs="+", default=["squared"], choices=list(LOSSES))
    parser.add_argument("--shares", nargs="+", type=float, default=[0.1, 0.01, 0.001])
    parser.add_argument("--gamma", type=float, help="for all data sets; by default one for each")
    parser.add_argument("--grids", type=int, default=256, help="of random binning")
    parser.add_argument("--seed", type=int, default=0, help="of the random features")
    parser.add_argument("--tols", nargs="+", type=float, default=[1e-3, 1e-6])
    parser.add_argument("--cap", type=float, default=60.0, help="seconds per contender and row")
    parser.add_argument("--without", nargs="+", default=[], help="contenders to leave out")
    options = parser.parse_args()
    facts = ", ".join(f"{name} {value}" for name, value in environment().items() if value)
    sys.stdout.write(f"{__doc__.splitlines()[0]}\n{facts}\n")
    for loss_name in options.losses:
        names, loss = contenders(loss_name), LOSSES[loss_name]
        names = {name: solve for name, solve in names.items() if name not in options.without}
        warm_up(names, loss)
        for data in options.data:
            for kind, design, matrix, y in matrices(data, options):
                y = y - y.mean(axis=0) if loss_name == "squared" else y
                largest = Problem(design, y, loss, L1(1.0), None, False).alpha_max()
                lines = []
                for share in options.shares:
                    task = Task(design, matrix, y, loss, share * largest)
                    late: set[str] = set()  # whoever misses the cap for a gap misses it for less
                    for tol in sorted(options.tols, reverse=True):
                        line = {f"{data} {kind}, {loss_name}": f"{share:g} of max, gap {tol:g}"}
                        seconds: dict[str, float] = {}
                        for name, solve in names.items():
                            if name in late:
                                line[name] = f"> {options.cap:.0f} s"
                                continue
                            entry, seconds[name] = row(name, solve, task, tol, options.cap)
                            line |= entry
                            if line[name].startswith(">"):
                                late.add(name)
                        lines.append(line | compared(seconds))
                        sys.stdout.write("\n" + table(lines[-1:]) + "\n")
                        sys.stdout.flush()
                sys.stdout.write(f"\n{design!r}\n{table(lines)}\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
