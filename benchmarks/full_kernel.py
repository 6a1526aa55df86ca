"""Kernel machines of many rows: all of them, landmarks, random features; ours, theirs, the paper's.

Everybody solves the same equations without an intercept, with targets whose mean is taken off, in
float32; runs are made once, each in turn, and end at the same relative residual or at the cap. The
residual and the test error of what they return are computed afresh, outside the clock. Those of
landmarks are compared by the objective: how far above the least one it is.

PyTorch's peers run if PyTorch is there.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

from _side_by_side import REST, Benchmark, table
from mercer._runtime.arrays import available_memory
from mercer.datasets import load
from mercer.designs import KernelColumns
from mercer.equations import equations
from mercer.kernels import Gaussian
from mercer.losses import Squared
from mercer.maps import RandomFourier
from mercer.penalties import L2, RKHSNorm
from mercer.problem import Problem
from mercer.solvers import BlockCoordinateDescent, Cholesky, ConjugateGradient, Solver

try:
    import _torch_peers as peers
except ImportError:
    peers = None


@dataclass
class Data:
    """A table in float32, scaled, with targets for least squares."""

    name: str
    X: NDArray
    y: NDArray
    X_test: NDArray
    y_test: NDArray

    @property
    def gamma(self) -> float:
        return float(1.0 / (self.X.shape[1] * self.X.var()))

    def error(self, responses: NDArray) -> str:
        """Share of wrong classes on the test rows."""
        if responses.shape[1] == 1:
            wrong = (responses > 0) != (self.y_test > 0)
        else:
            wrong = responses.argmax(1) != self.y_test.argmax(1)
        return f"{100 * wrong.mean():.2f}"


@dataclass
class Run:
    """What a contender returns: responses to the test rows, and θ if it is ours to judge."""

    seconds: float
    passes: float
    coef: NDArray | None
    responses: NDArray


def data_of(name: str, n: int, n_test: int = 2000) -> Data:
    """Rows drawn from a public table; classes become ±1, a column for each if there are many."""
    split = load(name).split(random_state=0)
    rng = np.random.default_rng(0)
    rows, tests = rng.permutation(len(split.y_train))[:n], slice(0, n_test)
    X, X_test = (
        np.asarray(part.todense()) if hasattr(part, "todense") else part
        for part in (split.X_train[rows], split.X_test[tests])
    )
    X, X_test = X.astype(np.float32), X_test.astype(np.float32)
    if name == "mnist":
        scale = np.float32(X.max())
        X, X_test = X / scale, X_test / scale
    else:
        mean, spread = X.mean(0), X.std(0)
        spread[spread == 0] = 1
        X, X_test = (X - mean) / spread, (X_test - mean) / spread
    classes = np.unique(split.y_train)
    y, y_test = (
        np.where(part[:, None] == classes, 1.0, -1.0).astype(np.float32)
        for part in (split.y_train[rows], split.y_test[tests])
    )
    if len(classes) == 2:
        y, y_test = y[:, 1:], y_test[:, 1:]
    mean = y.mean(0)
    label = f"{name}, n = {len(y)}, d = {X.shape[1]}, k = {y.shape[1]}"
    return Data(label, X, y - mean, X_test, y_test - mean)


def capped(cap: float) -> Callable[[object], bool]:
    """A callback that stops a solver after so many seconds."""
    begun = time.perf_counter()
    return lambda state: time.perf_counter() - begun > cap


def timed(solver: Solver, problem: Problem, cap: float) -> tuple[float, float, NDArray]:
    begun = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = solver.solve(problem, callback=capped(cap))
    return time.perf_counter() - begun, result.n_iter, result.coef


def asked_for(contenders: dict[str, Callable[[], Run]], only: list[str]) -> dict:
    """Those of some names; all if there are none."""
    if unknown := set(only) - set(contenders):
        raise SystemExit(f"--only: {sorted(unknown)} is not among {', '.join(contenders)}")
    return {name: contenders[name] for name in only or contenders}


def show(benchmark: Benchmark, title: str, runs: Iterable[tuple[str, dict[str, str]]]) -> None:
    """Print a row as soon as it is there, then all of them as a table with ratios."""
    rows, seconds = [], {}
    for name, facts in runs:
        benchmark.write("  " + name + ": " + ", ".join(f"{k} {v}" for k, v in facts.items()))
        rows.append({title: name} | facts)
        seconds[name] = float(facts["seconds"])
    best = min((v for k, v in seconds.items() if k.startswith("mercer")), default=np.nan)
    for row in rows:
        row["/ best of ours"] = f"{seconds[row[title]] / best:.2f}x"
    benchmark.write("\n" + table(rows))
    benchmark.keep(title, rows=rows)


# -- all rows --------------------------------------------------------------------------------------


def exact(benchmark: Benchmark, data: Data, alpha: float) -> None:
    """The machine of all rows to one relative residual."""
    options, n = benchmark.options, len(data.y)
    kernel = Gaussian(data.gamma)
    design = KernelColumns(data.X, kernel)
    problem = Problem(design, data.y, Squared(), RKHSNorm(alpha, design), None, False)
    tests = KernelColumns(data.X_test, kernel, landmarks=data.X)

    def ours(solver: Solver) -> Run:
        seconds, passes, coef = timed(solver, problem, options.cap)
        return Run(seconds, passes, coef, tests.matvec(coef))

    def sklearn() -> Run:
        begun = time.perf_counter()
        model = KernelRidge(alpha=n * alpha, kernel="rbf", gamma=data.gamma).fit(data.X, data.y)
        seconds = time.perf_counter() - begun
        return Run(seconds, 1, model.dual_coef_, tests.matvec(model.dual_coef_))

    def eigenpro() -> Run:
        fit = peers.eigenpro(data.X, data.y, data.gamma, alpha, options.tol, options.cap)
        return Run(fit.seconds, fit.passes, fit.coef, tests.matvec(fit.coef))

    contenders: dict[str, Callable[[], Run]] = {
        "mercer cg": partial(ours, ConjugateGradient(options.tol)),
        "mercer cg, no matrix held": partial(ours, ConjugateGradient(options.tol, hold=False)),
        "mercer block": partial(ours, BlockCoordinateDescent(options.tol, 10_000)),
        "mercer block, plain": partial(
            ours, BlockCoordinateDescent(options.tol, 10_000, accelerated=False)
        ),
    }
    memory = available_memory() or np.inf
    if 9.0 * n * n < memory and n <= 25_000:
        contenders["mercer cholesky"] = partial(ours, Cholesky(0.9))
    if 24.0 * n * n < memory and n <= 25_000:
        contenders["sklearn KernelRidge"] = sklearn
    if peers is not None:
        contenders["PyTorch EigenPro 2"] = eigenpro

    def runs() -> Iterable[tuple[str, dict[str, str]]]:
        system = equations(problem)
        for name, contender in asked_for(contenders, options.only).items():
            time.sleep(REST)
            run = contender()
            x = system.from_theta(run.coef)
            residual = float(system.relative(system.residual(x), x).max())
            facts = {"seconds": f"{run.seconds:.2f}", "passes": f"{run.passes:g}"}
            facts |= {"residual": f"{residual:.1e}", "test error %": data.error(run.responses)}
            yield name, facts

    benchmark.write(f"\nAll rows: {data.name}, alpha = {alpha:g}, residual {options.tol:g}")
    show(benchmark, data.name, runs())


# -- landmarks -------------------------------------------------------------------------------------


def landmarks(benchmark: Benchmark, data: Data, p: int, alpha: float) -> None:
    """The machine in the span of p landmarks; who gets nearest to the least objective, and when."""
    options, kernel = benchmark.options, Gaussian(data.gamma)
    centres = np.ascontiguousarray(data.X[:p])  # rows are in random order
    design = KernelColumns(data.X, kernel, landmarks=centres)
    penalty = RKHSNorm(alpha, design.landmark_design())
    problem = Problem(design, data.y, Squared(), penalty, None, False)
    tests = KernelColumns(data.X_test, kernel, landmarks=centres)

    def ours(solver: Solver) -> Run:
        seconds, passes, coef = timed(solver, problem, options.cap)
        return Run(seconds, passes, coef, tests.matvec(coef))

    def falkon() -> Run:
        fit = peers.falkon(data.X, data.y, centres, data.gamma, alpha, options.tol, options.cap)
        return Run(fit.seconds, fit.passes, fit.coef, tests.matvec(fit.coef))

    def sklearn() -> Run:
        begun = time.perf_counter()
        model = make_pipeline(
            Nystroem(gamma=data.gamma, n_components=p, random_state=0),
            Ridge(alpha=len(data.y) * alpha, fit_intercept=False),
        ).fit(data.X, data.y)
        seconds = time.perf_counter() - begun
        return Run(seconds, 1, None, model.predict(data.X_test).reshape(len(data.X_test), -1))

    contenders: dict[str, Callable[[], Run]] = {
        "mercer cg": partial(ours, ConjugateGradient(options.tol)),
        "mercer block": partial(ours, BlockCoordinateDescent(options.tol, 10_000)),
        "mercer cholesky": partial(ours, Cholesky(0.9)),
    }
    if p <= 2000:
        contenders["sklearn Nystroem, Ridge"] = sklearn
    if peers is not None:
        contenders["PyTorch Falkon"] = falkon

    def runs() -> Iterable[tuple[str, dict[str, str]]]:
        system = equations(problem)
        done = []
        for name, contender in asked_for(contenders, options.only).items():
            time.sleep(REST)
            run = contender()
            facts = {"seconds": f"{run.seconds:.2f}", "passes": f"{run.passes:g}"}
            if run.coef is not None:
                system.start(system.from_theta(run.coef))
                facts["objective"] = f"{float(system.values().sum()):.6f}"
            facts["test error %"] = data.error(run.responses)
            done.append((name, facts))
        least = min(float(facts.get("objective", "inf")) for _, facts in done)
        for name, facts in done:
            if "objective" in facts:
                facts["above the least %"] = f"{100 * (float(facts['objective']) / least - 1):.2f}"
            yield name, facts

    benchmark.write(f"\n{p} landmarks: {data.name}, alpha = {alpha:g}")
    show(benchmark, f"{p} landmarks, {data.name}", runs())


# -- random features -------------------------------------------------------------------------------


def features(benchmark: Benchmark, data: Data, counts: Iterable[int]) -> None:
    """One epoch of block descent over random features that are made, used and forgotten."""
    rows, seconds = [], []
    counts = list(counts)
    for count in [64, *counts]:  # the first begins what later ones find running
        fourier = RandomFourier(gamma=data.gamma, n_components=count, random_state=0).fit(data.X)
        problem = Problem(fourier.design(data.X), data.y, Squared(), L2(1e-6))
        solver = BlockCoordinateDescent(tol=0.0, max_iter=1)
        took, _, coef = timed(solver, problem, np.inf)
        if count == 64:
            continue
        seconds.append(took)
        value = problem.value(coef) / problem.value(problem.initial())
        rows.append(
            {
                data.name: f"p = {count}",
                "seconds": f"{took:.1f}",
                "objective / constant model's": f"{value:.4f}",
            }
        )
        benchmark.write(f"  p = {count}: {took:.1f} s")
    benchmark.write("\n" + table(rows))
    if len(counts) > 1:
        facts = {"exponent in p": f"{exponent(counts, seconds):.2f}"}
        benchmark.note(f"random features, {data.name}", **facts)


# -- scaling ---------------------------------------------------------------------------------------


def exponent(sizes: Iterable[float], seconds: Iterable[float]) -> float:
    """The slope of the line through the logarithms."""
    return float(np.polyfit(np.log(list(sizes)), np.log(list(seconds)), 1)[0])


def scaling(benchmark: Benchmark, data: Data) -> None:
    """How the seconds of one epoch grow with n, p, b and k, and those of one direct solution."""
    small = 500 if benchmark.quick else 2000
    rows = []

    def measured(name: str, sizes: list[int], run: Callable[[int], float], expected: str) -> None:
        run(sizes[0])
        seconds = [min(run(size) for _ in range(3)) for size in sizes]
        row = {"scaling": name, "sizes": ", ".join(map(str, sizes))}
        row["seconds"] = ", ".join(f"{s:.2f}" for s in seconds)
        row |= {"exponent": f"{exponent(sizes, seconds):.2f}", "operations": expected}
        rows.append(row)

    def of_rows(n: int, b: int = small // 4, k: int = 1, solver: Solver | None = None) -> float:
        design = KernelColumns(data.X[:n], Gaussian(data.gamma))
        y = np.resize(data.y[:n].T, (k, n)).T
        problem = Problem(design, y, Squared(), RKHSNorm(1e-6, design), None, False)
        epoch = BlockCoordinateDescent(tol=0.0, max_iter=1, block_size=b, hold=0)
        return timed(solver or epoch, problem, np.inf)[0]

    def of_landmarks(p: int, b: int = small // 4) -> float:
        design = KernelColumns(data.X, Gaussian(data.gamma), landmarks=data.X[:p])
        penalty = RKHSNorm(1e-6, design.landmark_design())
        problem = Problem(design, data.y[:, :1], Squared(), penalty, None, False)
        epoch = BlockCoordinateDescent(tol=0.0, max_iter=1, block_size=b, hold=0)
        return timed(epoch, problem, np.inf)[0]

    sizes = [small, 2 * small, 4 * small]
    whole = 2 * small
    measured("all rows, one epoch, n", sizes, of_rows, "2")
    measured("all rows, direct, n", sizes, partial(of_rows, solver=Cholesky(0.9)), "3")
    measured(
        "all rows, one epoch, b",
        [small // 8, small // 4, small // 2],
        lambda b: of_rows(whole, b),
        "0 (the factor: 2)",
    )
    measured(
        "all rows, one epoch, k",
        [1, 8, 64],
        lambda k: of_rows(whole, k=k),
        "0 where the kernel is the work, 1 where outputs are",
    )
    measured("landmarks, one epoch, p", [small // 2, small, whole], of_landmarks, "1")
    measured(
        "landmarks, one epoch, b",
        [small // 8, small // 4, small // 2],
        lambda b: of_landmarks(small, b),
        "1 (the Gram matrix)",
    )
    benchmark.write("\n" + table(rows))
    benchmark.keep("exponents", rows=rows)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--n", type=int, default=0, help="rows of the machine of all rows")
    parser.add_argument("--cap", type=float, default=60.0, help="seconds a contender may take")
    parser.add_argument("--tol", type=float, default=1e-3, help="relative residual to stop at")
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="NAME", help="contenders; all by default"
    )
    parser.add_argument("--landmarks", type=int, nargs="+", default=[], help="how many")
    parser.add_argument("--large", action="store_true", help="up to 60 000 rows, 100 000 features")
    parser.add_argument(
        "--parts",
        nargs="+",
        default=["exact", "landmarks", "features", "scaling"],
        help="which of exact, landmarks, features, scaling",
    )


def main() -> None:
    run = Benchmark("Kernel machines of many rows, float32.", arguments, "Seconds of one run each.")
    quick, large, parts = run.quick, run.options.large, run.options.parts
    sizes = [run.options.n] if run.options.n else [20_000, 60_000] if large else [10_000]
    if "exact" in parts:
        for n in [1500] if quick else sizes:
            exact(run, data_of("mnist", n), 1e-6)
        exact(run, data_of("cod-rna-train", 1500 if quick else sizes[0]), 1e-5)
    if "landmarks" in parts:
        data = data_of("cod-rna-train", 3000 if quick else 40_000)
        counts = [300] if quick else [1000, 5000, 10_000, 20_000] if large else [1000, 4000]
        for p in run.options.landmarks or counts:
            landmarks(run, data, p, 1e-6)
    if "features" in parts:
        data = data_of("kddcup10", 5000 if quick else 494_020)
        counts = [256, 512] if quick else [1000, 2000]
        features(run, data, [*counts, 10_000, 100_000] if large and not quick else counts)
    if "scaling" in parts:
        scaling(run, data_of("mnist", 2000 if quick else 8000))
    run.finish()


if __name__ == "__main__":
    main()
