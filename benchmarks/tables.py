"""Raw tables with no settings: mercer's automatic and plain estimators beside boosting.

Every contender gets the same rows with its defaults, in one process; what is chosen is chosen on a
part of the training rows. Sets of the registry are used where they are at hand (a folder named by
MERCER_DATA, or the cache); scikit-learn's own always. LightGBM, XGBoost, CatBoost and xRFM take
part if they are installed; targets of time are against the first two. Errors are shares of wrong
classes or root mean squares in units of the deviation; classes also have log losses and areas under
the ROC curve. Who refuses a set, as scikit-learn's boosting refuses classes of a single row, has
none in its line.

    python benchmarks/tables.py --seeds 5 --rows 20000 --json tables.json
    python benchmarks/tables.py --contenders xRFM CatBoost --json others.json
    python benchmarks/tables.py --report tables.json others.json
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets as sklearn_sets
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

import mercer
from _side_by_side import environment, table
from mercer import datasets
from mercer.compare.memory import PeakMemory
from mercer.compare.rivals import RIVALS, as_taken

NUMBERS = ("cadata", "cpu", "house-16h", "blogfeedback")
TWO_CLASSES = ("cod-rna-train", "covtype-sample", "susy-sample", "a9a", "ijcnn1-train", "w8a-train")
MORE_CLASSES = ("covtype-mult-sample", "covtype-mult-first20k", "letter", "pendigits", "mnist")
WIDE_OR_MANY = ("ujiindoorloc-floor", "kddcup10", "sector")
REGISTRY = (*NUMBERS, *TWO_CLASSES, *MORE_CLASSES, *WIDE_OR_MANY)
SHIPPED = ("diabetes", "breast_cancer", "wine", "digits", "iris")
GENERATED = ("friedman1", "friedman2", "friedman3")
NOISE = {"friedman1": 1.0, "friedman2": 50.0, "friedman3": 0.1}
DENSE = (HistGradientBoostingClassifier, HistGradientBoostingRegressor)  # take no sparse rows
MOST_DENSE = 10_000  # columns from which these would not fit
BOOSTERS = ("LightGBM", "XGBoost")  # with which ours is compared in the summary
PEERS = (*BOOSTERS, "CatBoost", "xRFM")
OURS = "mercer auto"
MEASURES = {
    "log_loss": "Log loss of classes, means over the seeds.",
    "auc": "Area under the ROC curve, means over the classes and seeds.",
}
SLOWER = 4.0  # times the faster booster, within which ours is to be

Split = tuple[Any, NDArray, Any, NDArray]


def sets(names: list[str], seed: int, rows: int) -> Iterator[tuple[str, str, Split]]:
    """Name, task and training and test rows, at most ``rows`` of each."""
    for name in names or [*REGISTRY, *SHIPPED, *GENERATED]:
        if name in SHIPPED:
            X, y = getattr(sklearn_sets, f"load_{name}")(return_X_y=True)
            task = "regression" if name == "diabetes" else "classification"
        elif name in GENERATED:
            make = getattr(sklearn_sets, f"make_{name}")
            X, y = make(n_samples=10_000, noise=NOISE[name], random_state=seed)
            task = "regression"
        else:
            try:
                data = datasets.load(name)
            except (datasets.DataError, ImportError):
                continue
            if data.X_test is not None:
                parts = data.split()
                yield name, data.task, capped(parts, seed, rows)
                continue
            X, y, task = data.X, data.y, data.task
        strata = y if task == "classification" and np.bincount(codes(y)).min() > 1 else None
        split = train_test_split(X, y, test_size=0.25, random_state=seed, stratify=strata)
        yield name, task, thinned(*split, seed=seed, rows=rows)


def codes(y: NDArray) -> NDArray:
    return np.unique(y, return_inverse=True)[1]


def capped(parts: Any, seed: int, rows: int) -> Split:
    return thinned(parts.X_train, parts.X_test, parts.y_train, parts.y_test, seed=seed, rows=rows)


def thinned(X: Any, X_test: Any, y: NDArray, y_test: NDArray, *, seed: int, rows: int) -> Split:
    rng = np.random.default_rng(seed)
    train, test = rng.permutation(len(y))[:rows], rng.permutation(len(y_test))[:rows]
    return X[train], y[train], X_test[test], y_test[test]


def contenders(
    task: str, seed: int, categories: Sequence[str] = ()
) -> dict[str, Callable[[], Any]]:
    """A way to make each contender with its defaults, for columns of which some are categories."""
    kind = "Classifier" if task == "classification" else "Regressor"
    hist = HistGradientBoostingClassifier if kind == "Classifier" else HistGradientBoostingRegressor
    found: dict[str, Callable[[], Any]] = {
        "mercer auto": lambda: getattr(mercer, f"AutoKernel{kind}")(random_state=seed),
        "mercer plain": lambda: getattr(mercer, f"Kernel{kind}")(random_state=seed),
        "HistGradientBoosting": lambda: hist(random_state=seed),
    }
    makers = {rival.label: rival.make for rival in RIVALS.values() if rival.is_installed}
    with suppress(ImportError):
        peer = importlib.import_module("_xrfm_peer")
        makers["xRFM"] = lambda task, seed, _: getattr(peer, f"XRFM{kind}")(random_state=seed)
    for name, make in makers.items():
        found[name] = lambda make=make: make(task, seed, categories)
    return found


def run(make: Callable[[], Any], task: str, split: Split) -> dict[str, Any]:
    """Error, seconds and memory of one contender."""
    X, y, X_test, y_test = split
    classes = np.unique(y)
    target = np.searchsorted(classes, y) if task == "classification" else y
    model = make()
    if isinstance(model, DENSE) and hasattr(X, "toarray"):
        if X.shape[1] > MOST_DENSE:
            raise ValueError(f"takes no sparse rows, and {X.shape[1]} columns are too many.")
        X, X_test = X.toarray(), X_test.toarray()
    X, X_test = as_taken(model, X), as_taken(model, X_test)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with PeakMemory() as memory:
            start = time.perf_counter()
            model.fit(X, target)
            fitted = time.perf_counter()
        predicted = np.asarray(model.predict(X_test)).ravel()  # CatBoost gives classes a column
    seconds = {"fit_seconds": fitted - start, "predict_seconds": time.perf_counter() - fitted}
    facts: dict[str, Any] = dict(seconds)
    if task == "classification":
        facts["error"] = float(np.mean(classes[predicted.astype(int)] != y_test))
        known = np.flatnonzero(np.isin(y_test, classes))  # others have no probability
        facts |= of_probabilities(model, X_test[known], np.searchsorted(classes, y_test[known]))
    else:
        facts["error"] = float(np.sqrt(np.mean((predicted - y_test) ** 2)) / np.std(y_test))
    return facts | {"memory": memory.added, "chosen": getattr(model, "best_settings_", None)}


def of_probabilities(model: Any, X: Any, labels: NDArray) -> dict[str, float]:
    """Log loss, of probabilities of a millionth at least, and area under the ROC curve.

    ``labels`` are places among the classes of the model; the area of several classes is the mean
    over them, each against all others.
    """
    proba = np.clip(np.asarray(model.predict_proba(X), dtype=np.float64), 1e-6, 1.0)
    proba /= proba.sum(axis=1, keepdims=True)
    lost = float(np.mean(-np.log(proba[np.arange(len(labels)), labels])))
    there = [c for c in range(proba.shape[1]) if 0 < np.mean(labels == c) < 1]
    there = there[-1:] if proba.shape[1] == 2 else there
    areas = [float(roc_auc_score(labels == c, proba[:, c])) for c in there]
    return {"log_loss": lost} | ({"auc": statistics.fmean(areas)} if areas else {})


def report(records: list[dict[str, Any]]) -> str:
    """A row per set, then ranks, wins and how often the targets are met."""
    names = list(dict.fromkeys(r["contender"] for r in records))
    lines, ranks, figures = [], {name: [] for name in names}, []
    for data in dict.fromkeys(r["data"] for r in records):
        own = {
            name: [r for r in records if r["data"] == data and r["contender"] == name]
            for name in names
        }
        own = {name: found for name, found in own.items() if found}
        error = {n: statistics.fmean(r["error"] for r in found) for n, found in own.items()}
        seconds = {
            n: statistics.median(r["fit_seconds"] for r in found) for n, found in own.items()
        }
        figures.append((error, seconds))
        for name in own:
            ranks[name].append(1 + sum(error[other] < error[name] for other in own))
        line = {"data": data, "rows": str(next(iter(own.values()))[0]["rows"])}
        line |= {
            name: f"{error[name]:.4f} ({seconds[name]:.2f})" if name in own else "none"
            for name in names
        }
        lines.append(line)
    places = [
        f"{name}: mean rank {statistics.fmean(found):.2f}, first on {found.count(1)} of "
        f"{len(found)}"
        for name, found in ranks.items()
        if found
    ]
    text = ["Error (fit seconds), means over the seeds.", table(lines), "", *places]
    text += [against(figures, rivals) for rivals in (BOOSTERS, PEERS)]
    for key, title in MEASURES.items():
        text += of_classes([record for record in records if key in record], key, title)
    return "\n".join(text)


def of_classes(records: list[dict[str, Any]], key: str, title: str) -> list[str]:
    """A row per set of classes for another measure than the error, means over the seeds."""
    names = list(dict.fromkeys(record["contender"] for record in records))
    lines = []
    for data in dict.fromkeys(record["data"] for record in records):
        line = {"data": data}
        for name in names:
            found = [r[key] for r in records if (r["data"], r["contender"]) == (data, name)]
            line[name] = f"{statistics.fmean(found):.4f}" if found else "none"
        lines.append(line)
    return ["", title, table(lines)] if lines else []


def against(
    figures: Sequence[tuple[dict[str, float], dict[str, float]]], rivals: Sequence[str]
) -> str:
    """Our errors beside the best rival's and our seconds beside the fastest's, over all sets."""
    pairs, times = [], []
    for error, seconds in figures:
        there = [name for name in rivals if name in error]
        if there and OURS in error:
            pairs.append((error[OURS], min(error[name] for name in there)))
            times.append(seconds[OURS] / min(seconds[name] for name in there))
    heading = f"{OURS} against {', '.join(rivals)}: "
    if not pairs:
        return heading + "none took part."
    ratios = [ours / best for ours, best in pairs if ours > 0 < best]
    mean = math.exp(statistics.fmean(map(math.log, ratios))) if ratios else math.nan
    return (
        f"{heading}error below the best of them on {sum(ours < best for ours, best in pairs)} of "
        f"{len(pairs)}, geometric mean of the ratios {mean:.3f} (of {len(ratios)} above 0); "
        f"time against the fastest: median {statistics.median(times):.1f}x, largest "
        f"{max(times):.1f}x, within {SLOWER:g}x on {sum(t <= SLOWER for t in times)}."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="*", default=[], help="names; by default all there are")
    parser.add_argument("--seeds", type=int, default=5, help="splits of every set")
    parser.add_argument("--first-seed", type=int, default=0, help="of the splits")
    parser.add_argument("--rows", type=int, default=20_000, help="most training and test rows")
    parser.add_argument("--quick", action="store_true", help="two seeds, 2 000 rows")
    parser.add_argument("--contenders", nargs="*", default=[], help="names; by default all")
    parser.add_argument("--json", type=Path, help="also write every run to this file")
    parser.add_argument("--report", nargs="+", type=Path, help="of such files, run nothing")
    options = parser.parse_args()
    if options.report:
        stored = [json.loads(path.read_text())["runs"] for path in options.report]
        sys.stdout.write(report([record for runs in stored for record in runs]) + "\n")
        return
    seeds, rows = (2, 2000) if options.quick else (options.seeds, options.rows)
    records: list[dict[str, Any]] = []
    for seed in range(options.first_seed, options.first_seed + seeds):
        for name, task, split in sets(options.sets, seed, rows):
            sys.stderr.write(f"seed {seed}, {name}\n")
            for which, make in contenders(task, seed).items():
                if options.contenders and which not in options.contenders:
                    continue
                facts = {"data": name, "seed": seed, "contender": which, "rows": len(split[1])}
                try:
                    records.append(facts | run(make, task, split))
                except ValueError as refusal:
                    sys.stderr.write(f"  {which} refuses: {refusal}\n")
            if options.json:  # what was run is kept whatever happens to the rest
                content = {"environment": environment(), "runs": records}
                options.json.write_text(json.dumps(content, indent=1) + "\n")
    facts = ", ".join(f"{name} {value}" for name, value in environment().items() if value)
    sys.stdout.write(f"{facts}\n{report(records)}\n")


if __name__ == "__main__":
    main()
