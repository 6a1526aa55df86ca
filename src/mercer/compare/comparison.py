"""One data set, several kernel methods, equal terms: the same loss, scaling, grids and rows."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from mercer import persistence
from mercer._runtime.arrays import available_memory, format_bytes, n_threads
from mercer.compare import memory, records
from mercer.compare.methods import DEFAULT, EXACT_ROWS, METHODS, TOLERANCE, Method
from mercer.compare.metrics import scores
from mercer.compare.records import describe_data, quiet
from mercer.compare.rivals import CONTENDERS, Contender
from mercer.compare.selection import Choice, Selection
from mercer.datasets.base import Dataset, Split
from mercer.estimators.plan import FitPlan, fit_planned
from mercer.preparation import TablePreparer
from mercer.preparation.frames import frame_of
from mercer.preparation.repeats import copies_in

__all__ = ["Comparison", "Plan", "compare"]

_FORMAT = 1
_FEWEST_ROWS = 10
_RUNS, _QUICK = 3, 0.2  # work is timed so often, unless it has taken so many seconds before
# Training rows up to which one thread does all, unless the plan says how many: on 300 rows two
# took ten times the processor's seconds of one, waiting for each other.
_FEW_ROWS = 2000


@dataclass(frozen=True)
class Plan:
    """Settings of a comparison; a ValueError for an unknown method or a size below 1.

    >>> Plan(methods=("linear", "binning"), sizes=(64,)).chosen()[1].sizes
    (64,)
    """

    methods: tuple[str, ...] = DEFAULT  # names in METHODS or CONTENDERS
    sizes: tuple[int, ...] | None = None  # for every method that has them; None: each one's own
    seed: int = 0  # decides every random choice
    n_jobs: int | None = None  # threads; None takes every core, and one for few rows
    selection_rows: int = 4000  # that at most are fitted, and validated on, to choose settings
    exact_rows: int = EXACT_ROWS  # more training rows than this leave the exact method out

    def __post_init__(self) -> None:
        known = {**METHODS, **CONTENDERS}
        unknown = [name for name in self.methods if name not in known]
        if unknown or not self.methods:
            wrong = unknown[0] if unknown else ()
            raise ValueError(f"methods must be among {', '.join(known)}; got {wrong!r}.")
        for name in self.methods:
            if name in CONTENDERS and not CONTENDERS[name].is_installed:
                raise ValueError(f"methods may hold {name!r} where it is installed; it is not.")
        if self.sizes is not None and (not self.sizes or min(self.sizes) < 1):
            raise ValueError(f"sizes must be whole numbers of at least 1; got {self.sizes}.")

    @classmethod
    def fast(cls, **settings: Any) -> Plan:
        """A plan for a first look: few sizes, few rows to choose on, exact on small data alone."""
        quick = {"sizes": (16, 64, 256), "selection_rows": 1000, "exact_rows": 4000}
        return cls(**{**quick, **{k: v for k, v in settings.items() if v is not None}})

    def chosen(self) -> list[Method]:
        """The methods, with the sizes of this plan."""
        methods = [METHODS[name] for name in self.methods if name in METHODS]
        if self.sizes is None:
            return methods
        sizes = tuple(sorted(set(self.sizes)))
        return [
            replace(m, sizes=sizes, reference=min(m.reference, sizes[-1])) if m.reference else m
            for m in methods
        ]

    def contenders(self) -> list[Contender]:
        """Methods that take raw tables."""
        return [CONTENDERS[name] for name in self.methods if name in CONTENDERS]


@dataclass(frozen=True)
class Comparison:
    """The records of a comparison, and what was left out of it."""

    records: list[dict[str, Any]]  # one for each fit
    notes: list[str]


def compare(
    data: Dataset,
    plan: Plan = Plan(),
    *,
    on_record: Callable[[dict[str, Any]], None] = lambda record: None,
    on_progress: Callable[[float, str], None] = lambda share, text: None,
) -> Comparison:
    """Fit and score every method of a plan at every size.

    Kernel, γ and α are chosen for each method on one validation part of the training rows, over the
    same grids; then every size is fitted on the whole training part with that choice, and timed.
    The test part, or a seeded quarter of the rows where there is none, is used for the test scores
    alone. ``on_record`` is called with each record as soon as its fit is done, ``on_progress`` with
    the share of the work done, in [0, 1], and what is being done.

    Of texts, dates and missing cells, in X of objects or with NaN, all methods get the same
    numbers, those of a :class:`mercer.TablePreparer`; contenders, which come last, get the rows as
    they are. A rival that refuses them is left out with a note.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (200, 2)).astype(np.float32)
    >>> data = Dataset("product", "regression", X, X[:, 0] * X[:, 1])
    >>> result = compare(data, Plan(methods=("linear", "binning"), sizes=(64,)))
    >>> linear, binning = (r["score"]["relative_rmse"] for r in result.records)
    >>> binning < linear
    True
    """
    data, told = _without_copies(data)
    parts = data.split(random_state=plan.seed)
    n = parts.X_train.shape[0]
    if n < _FEWEST_ROWS:
        raise ValueError(f"data must have at least {_FEWEST_ROWS} training rows; got {n}.")
    if plan.n_jobs is None and n <= _FEW_ROWS:
        plan = replace(plan, n_jobs=1)
    methods, notes = _feasible(plan, n)
    notes = told + notes
    work = _Work([*methods, *plan.contenders()], plan, parts, on_progress)
    done = []
    with threadpool_limits(n_threads(plan.n_jobs)):
        for record in _records(data, parts, methods, plan, work, notes):
            done.append(record)
            on_record(record)
    on_progress(1.0, "done")
    return Comparison(done, notes)


def _without_copies(data: Dataset) -> tuple[Dataset, list[str]]:
    """The data with every row once, and a sentence if copies are left out."""
    frame = frame_of(data.X)
    labels = data.y if data.task == "classification" and data.y.ndim == 1 else None
    copies = copies_in(data.X if frame is None else frame, data.y, labels=labels, warns=False)
    if copies is None:
        return data, []
    n, kept = data.n_train, len(copies.first)
    note = f"{n - kept} of {n} rows are left out: copies of others, which tests would have seen."
    return data.taken(copies.first), [note]


def _records(
    data: Dataset,
    parts: Split,
    methods: list[Method],
    plan: Plan,
    work: _Work,
    notes: list[str],
) -> Iterator[dict[str, Any]]:
    """Choose for each method, then fit its sizes, one record after the other."""
    begun = time.perf_counter()
    numbers = _as_numbers(parts, data.task, plan.seed) if methods else parts
    selection = Selection(
        numbers.X_train,
        numbers.y_train,
        data.task,
        seed=plan.seed,
        max_rows=plan.selection_rows,
        is_series=data.is_series,
        n_jobs=plan.n_jobs,
    )
    common = {
        "record": "mercer compare",
        "format": _FORMAT,
        "run": records.new_run(),
        "seed": plan.seed,
        **records.environment(plan.n_jobs),
        "data": describe_data(data, parts),
        "selection": selection.describe(),
    }
    for method in methods:
        work.goes_on(f"{method.label}: choosing settings")
        with quiet():
            choice = selection.choose(method, on_step=partial(work.advance, work.try_cost(method)))
        for size in method.sizes or (None,):
            work.goes_on(method.label if size is None else f"{method.label}, {size} components")
            yield {**common, **_fit(method, size, choice, data.task, numbers, plan)}
            work.advance(method.cost(size, *work.shape))
    for contender in plan.contenders():
        work.goes_on(contender.label)
        before, started = time.perf_counter() - begun, time.perf_counter()
        try:
            own = _fit_whole(contender, data.task, parts, plan)
        except Exception as error:  # other packages raise all sorts
            if not contender.is_rival:
                raise
            notes.append(f"{contender.label} is left out: {' '.join(str(error).split())[:200]}")
        else:
            took = time.perf_counter() - started
            if contender.is_rival and took > before:
                notes.append(
                    f"{contender.label} took {took:.0f} s, longer than all before it ({before:.0f} "
                    "s); --methods leaves it out."
                )
            yield {**common, **own}
        work.advance(contender.cost(None, *work.shape))


def _as_numbers(parts: Split, task: str, seed: int) -> Split:
    """The parts with numbers for what is none, as the training part alone teaches."""
    X = parts.X_train
    if X.dtype.kind != "O" and (sparse.issparse(X) or not np.isnan(X.sum())):
        return parts
    target = "classes" if task == "classification" else "continuous"
    preparer = TablePreparer(target=target, random_state=seed)
    prepared = preparer.fit_transform(X, parts.y_train), preparer.transform(parts.X_test)
    return replace(parts, X_train=prepared[0], X_test=prepared[1])


def _fit_whole(contender: Contender, task: str, parts: Split, plan: Plan) -> dict[str, Any]:
    """Fit what takes tables as they are; the part of its record that is its own."""

    def fit() -> Any:
        model = contender.estimator(task, seed=plan.seed, n_jobs=plan.n_jobs)
        return model.fit(parts.X_train, parts.y_train)

    chosen: dict[str, Any] = dict.fromkeys(
        ("kernel", "gamma", "gamma_multiple", "alpha", "alpha_multiple", "loss", "tol", "solver")
    )
    contender.load()
    measured, model = _measured(fit, task, parts)
    best = getattr(model, "best_settings_", {})
    return {
        "method": contender.name,
        "label": contender.label,
        "rival": contender.is_rival,
        "size": None,
        "n_features": None,
        "settings": {**chosen, "kernel": best.get("kernel"), "scale": False},
        "choice": best or None,
        **measured,
        "n_iter": None,
        "converged": True,
        # Of others no model file is written; their bytes are counted and never read.
        "model_bytes": len(pickle.dumps(model) if contender.is_rival else persistence.dumps(model)),
    }


def _measured(fit: Callable[[], Any], task: str, parts: Split) -> tuple[dict[str, Any], Any]:
    """Scores, seconds, memory and warnings of a fit and its predictions; and the model."""
    with quiet() as caught, memory.PeakMemory() as peak:
        model, fit_seconds = _timed(fit)
    with quiet() as later:
        predicted, predict_seconds = _timed(lambda: model.predict(parts.X_test))
    measured = {
        "score": scores(task, parts.y_test, predicted),
        "seconds": {
            "fit": float(np.median(fit_seconds)),
            "predict": float(np.median(predict_seconds)),
        },
        "runs": {"fit": fit_seconds, "predict": predict_seconds},
        "memory": {"added": peak.added, "peak": peak.peak, "kind": memory.KIND},
        "warnings": sorted({str(w.message) for w in [*caught, *later]}),
    }
    return measured, model


def _fit(
    method: Method, size: int | None, choice: Choice, task: str, parts: Split, plan: Plan
) -> dict[str, Any]:
    """Fit one size on the whole training part; the part of its record that is its own."""
    n = parts.X_train.shape[0]

    def fit() -> Any:
        model = method.estimator(
            task,
            size=size,
            kernel=choice.kernel,
            gamma=choice.gamma,
            alpha=choice.alpha_multiple / n,
            seed=plan.seed,
            n_jobs=plan.n_jobs,
        )
        plan_of_fit = FitPlan(calibrates=False)
        return fit_planned(model, parts.X_train, parts.y_train, None, plan_of_fit)

    measured, model = _measured(fit, task, parts)
    map_ = getattr(model, "feature_map_", None)
    measured["seconds"] = {"choose": choice.seconds, **measured["seconds"]}
    return {
        "method": method.name,
        "label": method.label,
        "size": size,
        "n_features": getattr(map_, "n_features_out_", None),
        "settings": {
            "kernel": choice.kernel,
            "gamma": choice.gamma,
            "gamma_multiple": choice.gamma_multiple,
            "alpha": choice.alpha_multiple / n,
            "alpha_multiple": choice.alpha_multiple,
            "loss": "squared",
            "scale": True,
            "tol": TOLERANCE,
            "solver": getattr(model, "solver_", "cholesky"),
        },
        "choice": {"reference": method.reference, **asdict(choice)},
        **measured,
        "n_iter": getattr(model, "n_iter_", None),
        "converged": getattr(model, "converged_", True),
        "model_bytes": len(persistence.dumps(model)),
    }


def _timed(run: Callable[[], Any]) -> tuple[Any, list[float]]:
    """The result of ``run`` and its seconds; quick work is repeated for a median."""
    seconds: list[float] = []
    while not seconds or (len(seconds) < _RUNS and sum(seconds) < _QUICK):
        result = None  # the previous one makes room
        start = time.perf_counter()
        result = run()
        seconds.append(time.perf_counter() - start)
    return result, seconds


def _feasible(plan: Plan, n: int) -> tuple[list[Method], list[str]]:
    """The methods that fit this machine and these rows, and a sentence for each that does not."""
    kept, notes = [], []
    room = available_memory()
    for method in plan.chosen():
        if method.name == "exact" and n > plan.exact_rows:
            notes.append(
                f"exact is left out: {n} training rows are more than {plan.exact_rows}, and its "
                "time grows with their cube."
            )
            continue
        if method.name == "exact" and room is not None and 8.5 * n**2 > room:
            notes.append(
                f"exact is left out: its kernel matrix needs {format_bytes(8.5 * n**2)} and "
                f"{format_bytes(room)} are available."
            )
            continue
        if method.family == "nystroem" and any(size > n for size in method.sizes):
            fitting = tuple(size for size in method.sizes if size <= n) or (n,)
            notes.append(f"{method.label} has no sizes above {n}, the number of training rows.")
            method = replace(method, sizes=fitting, reference=min(method.reference or n, n))
        kept.append(method)
    if not kept and not plan.contenders():
        raise ValueError(notes[0])
    return kept, notes


class _Work:
    """The share of the comparison that is done, by rough costs: for the progress bar alone."""

    def __init__(
        self,
        methods: Iterable[Method | Contender],
        plan: Plan,
        parts: Split,
        on_progress: Callable[[float, str], None],
    ):
        n, d = parts.X_train.shape
        y = parts.y_train
        outputs = len(np.unique(y)) if y.ndim == 1 and y.dtype.kind not in "f" else 1
        self.shape = n, d, outputs
        self._rows = min(int(0.8 * n), plan.selection_rows)
        self._on_progress, self._text, self._done = on_progress, "", 0.0
        self._total = sum(map(self._cost, methods))

    def _cost(self, method: Method | Contender) -> float:
        """Cost of choosing settings, if there are several, and of all fits."""
        if isinstance(method, Contender):
            return method.cost(None, *self.shape)
        fits = sum(method.cost(size, *self.shape) for size in method.sizes or (None,))
        return Selection.n_steps(method) * self.try_cost(method) + fits

    def try_cost(self, method: Method) -> float:
        """Cost of one trial while settings are chosen."""
        return method.cost(method.reference, self._rows, *self.shape[1:])

    def goes_on(self, text: str) -> None:
        """Tell what comes next."""
        self._text = text
        self.advance(0.0)

    def advance(self, cost: float) -> None:
        """Tell that work of this cost is done."""
        self._done += cost
        self._on_progress(min(1.0, self._done / self._total), self._text)
