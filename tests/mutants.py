#!/usr/bin/env python
"""Faults planted in mercer one at a time, each of which the default tests must notice.

Run by hand: ``python tests/mutants.py``, with part of a file's name for some of them. Prints a row
per fault and ends with 1 if the tests pass with one, or if its line is no longer in the file.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "mercer"
LINES = 4  # of the end of a run, shown where it neither passed nor failed

# An editable installation puts its own finder before the path that names the copy.
UNINSTALLED = """import sys
sys.meta_path[:] = [f for f in sys.meta_path if "Redirecting" not in type(f).__name__]
"""


class Mutant(NamedTuple):
    """A change of one place in a file, and the tests that must fail with it."""

    file: str
    old: str
    new: str
    tests: tuple[str, ...]


MUTANTS = [
    Mutant(  # sign of a slope
        "losses/classification.py",
        "return -y * expit(-y * u)",
        "return y * expit(-y * u)",
        ("losses",),
    ),
    Mutant(  # bound of a slope
        "losses/regression.py",
        "return np.clip(u - y, -self.delta, self.delta)",
        "return np.clip(u - y, -self.delta, None)",
        ("losses",),
    ),
    Mutant(  # link
        "losses/counts.py",
        "            return np.exp(u)\n",
        "            return np.exp2(u)\n",
        ("losses", "estimators/test_counts.py"),
    ),
    Mutant(  # length of a proximal step
        "penalties.py",
        "v - np.clip(v, -step * self.l1, step * self.l1)",
        "v - np.clip(v, -self.l1, self.l1)",
        ("problem",),
    ),
    Mutant(  # weights of rows
        "problem/objective.py",
        'return np.einsum("i,i...->...", self.weights, rows, dtype=np.float64) / self.n_rows',
        "return np.asarray(np.sum(rows, axis=0, dtype=np.float64) / self.n_rows)",
        ("problem",),
    ),
    Mutant(  # ridge for the strength
        "equations/kernel.py",
        "out += self.n_rows * self.strengths(columns) * V",
        "out += self.strengths(columns) * V",
        ("equations",),
    ),
    Mutant(  # sign of a derivative
        "equations/criteria.py",
        "of_ridge = slopes.diagonal() @ ridges",
        "of_ridge = -slopes.diagonal() @ ridges",
        ("estimators/test_evidence.py",),
    ),
    Mutant(  # spread of a spectral law
        "kernels/stationary.py",
        "return np.sqrt(2.0) * ndtri(uniform)",
        "return ndtri(uniform)",
        ("kernels",),
    ),
    Mutant(  # power of a factor
        "designs/binned.py",
        "_core.binned_gram_matvec, v, self.shape[0], self.scale**2)",
        "_core.binned_gram_matvec, v, self.shape[0], self.scale)",
        ("designs",),
    ),
    Mutant(  # division by the number of grids
        "maps/binning.py",
        "return amplitude * self._n_grids**-0.5 if self._scale_ else amplitude",
        "return amplitude",
        ("maps/test_binning.py",),
    ),
    Mutant(  # root of eigenvalues
        "maps/nystroem.py",
        "whitening = vectors[:, kept] / np.sqrt(eigenvalues[kept])",
        "whitening = vectors[:, kept] / eigenvalues[kept]",
        ("maps/test_nystroem.py",),
    ),
    Mutant(  # key of cached frequencies
        "maps/fourier.py",
        "description = *settings, self.n_features_in_, streams.tobytes()",
        "description = *settings, self.n_features_in_, len(streams)",
        ("maps/test_fourier.py", "maps/test_maps_base.py"),
    ),
    Mutant(  # middle of the rows of a node
        "maps/partition.py",
        "places = [int((0.5 - overlap) * n), n // 2 - 1, n // 2, int((0.5 + overlap) * n)]",
        "places = [int((0.5 - overlap) * n), n // 2, n // 2 + 1, int((0.5 + overlap) * n)]",
        ("maps/test_partition.py",),
    ),
    Mutant(  # division by what a row does not explain
        "solvers/direct.py",
        "residual = ((target - one.at(theta).responses).T / rest).T",
        "residual = target - one.at(theta).responses",
        ("solvers/test_leave_one_out.py",),
    ),
    Mutant(  # sign of a bend
        "solvers/newton.py",
        "bend = -actual - slope  #",
        "bend = -actual + slope  #",
        ("solvers/test_newton.py",),
    ),
    Mutant(  # weights of rows in leaves
        "solvers/local.py",
        "inverse_weights = np.ones(m) if weights is None else 1 / weights",
        "inverse_weights = np.ones(m)",
        ("estimators/test_local.py",),
    ),
    Mutant(  # weights of merged moments
        "_runtime/moments.py",
        "shift = np.square(step) * (self.weight * share)",
        "shift = np.square(step) * self.weight",
        ("runtime",),
    ),
    Mutant(  # logarithms of targets on shards
        "distributed/tables.py",
        "other.target_steps = (*self.target_steps, step)",
        "other.target_steps = self.target_steps",
        ("distributed_",),
    ),
    Mutant(  # rows of a shard in files, of one piece alone
        "engines/files.py",
        '.open("ab") as file',
        '.open("wb") as file',
        ("estimators/test_out_of_core.py",),
    ),
    Mutant(  # centre of the logarithm of targets
        "auto/targets.py",
        "np.log1p(np.abs(y - self.centre) / self.unit)",
        "np.log1p(np.abs(y) / self.unit)",
        ("auto/test_auto_parts.py",),
    ),
    Mutant(  # seconds that trials of a wave share
        "auto/ledger.py",
        "((now - self.since) * shares / shares.sum()).tolist()",
        "[now - self.since] * len(new)",
        ("auto/test_auto_ledger.py",),
    ),
    Mutant(  # rank of a quantile
        "auto/intervals.py",
        "return np.stack([self.scores[outside - 1], self.scores[m - outside]])",
        "return np.stack([self.scores[outside], self.scores[m - outside]])",
        ("auto/test_intervals.py",),
    ),
    Mutant(  # share for the response of one class against the others
        "estimators/probabilities.py",
        "return np.maximum(0.5 * (1 + responses.astype(np.float64)), 0)",
        "return np.maximum(0.5 * (2 + responses.astype(np.float64)), 0)",
        ("estimators/test_probabilities.py",),
    ),
    Mutant(  # mean of what is missing
        "preparation/numeric.py",
        "out[:, middle] += 0.5 * unknown[:, middle]",
        "out[:, middle] += 1.0 * unknown[:, middle]",
        ("preparation",),
    ),
    Mutant(  # centre of components
        "unsupervised/components.py",
        "matrix = design.gram() - n * np.outer(mean, mean)",
        "matrix = design.gram()",
        ("unsupervised/test_components.py",),
    ),
    Mutant(  # division by the number of background rows
        "explain/exact.py",
        "yield total / n",
        "yield total / (n - 1) if n > 1 else total",
        ("explain",),
    ),
    Mutant(  # weight of the second sample
        "statistics/tests.py",
        "sign = np.concatenate([np.full(n, 1.0 / n), np.full(m, -1.0 / m)])",
        "sign = np.concatenate([np.full(n, 1.0 / n), np.full(m, -1.0 / n)])",
        ("statistics",),
    ),
    Mutant(  # norm of the error of a kernel matrix
        "diagnostics/kernel_error.py",
        "return float(np.sqrt(size)), float(np.sqrt(distance))",
        "return float(np.sqrt(size)), float(distance)",
        ("diagnostics",),
    ),
    Mutant(  # digest of a member
        "persistence/manifest.py",
        "if _digest(archive, name) != digest:",
        "if not digest:",
        ("persistence",),
    ),
    Mutant(  # numbers of rows as weights
        "plots/calibration.py",
        "return float(np.average(np.abs(self.prob_true - self.prob_pred), weights=self.counts))",
        "return float(np.average(np.abs(self.prob_true - self.prob_pred)))",
        ("plots/test_displays.py",),
    ),
    Mutant(  # rows of training among those of test
        "datasets/base.py",
        "return rng.permutation(kept), kept + rng.permutation(n - kept)",
        "return rng.permutation(kept), kept - 1 + rng.permutation(n - kept)",
        ("datasets/test_datasets.py",),
    ),
    Mutant(  # error of a mean
        "cli/scorers.py",
        "error = float(np.std(scores, ddof=1) / np.sqrt(len(scores)))",
        "error = float(np.std(scores) / np.sqrt(len(scores)))",
        ("cli/test_cli_scores.py",),
    ),
    Mutant(  # centre of the spread
        "compare/metrics.py",
        "spread = float(np.sum((y - y.mean(axis=0)) ** 2))",
        "spread = float(np.sum((y - y.mean()) ** 2))",
        ("compare",),
    ),
    Mutant(  # sign of a law
        "_runtime/random.py",
        "return -np.log(self.uniform(size, slot))",
        "return np.log(self.uniform(size, slot))",
        ("runtime/test_random.py",),
    ),
]


def places(mutant: Mutant) -> int:
    """Number of places of a file at which the old text stands."""
    return (SOURCE / mutant.file).read_text(encoding="utf-8").count(mutant.old)


def outcome(mutant: Mutant, packages: Path) -> str:
    """Run the tests of a mutant: "noticed", "survived", or the end of a run that did neither."""
    path = packages / "mercer" / mutant.file
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "2", "-p", "no:cacheprovider"]
    try:
        done = subprocess.run(
            [*command, *(str(ROOT / "tests" / name) for name in mutant.tests)],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(packages), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            check=False,
            text=True,
        )
    finally:
        path.write_text(text, encoding="utf-8")
    if done.returncode == 0:
        return "survived"
    if re.search(r"^\d+ failed", done.stdout, re.MULTILINE):
        return "noticed"
    return "\n".join(["neither", *(done.stdout + done.stderr).splitlines()[-LINES:]])


def copied(packages: Path) -> None:
    """Copy mercer, with the compiled core that is in use, to where tests import it."""
    shutil.copytree(SOURCE, packages / "mercer", ignore=shutil.ignore_patterns("__pycache__"))
    (packages / "sitecustomize.py").write_text(UNINSTALLED, encoding="utf-8")
    from mercer import _core

    shutil.copy(_core.__file__, packages / "mercer")


def main(names: list[str]) -> int:
    wanted = [m for m in MUTANTS if not names or any(name in m.file for name in names)]
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        packages = Path(folder)
        copied(packages)
        for mutant in wanted:
            start = time.monotonic()
            found = "not in the file once" if places(mutant) != 1 else outcome(mutant, packages)
            bad += found != "noticed"
            row = f"{mutant.file:30} {' '.join(mutant.tests):40} {time.monotonic() - start:4.0f} s"
            print(f"{row}  {found}", flush=True)  # noqa: T201
    print(f"{len(wanted) - bad} of {len(wanted)} faults noticed")  # noqa: T201
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
