"""Automatic models: a search, the final fit, and figures of the held-out rows."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, is_classifier
from sklearn.pipeline import Pipeline

from mercer._runtime.arrays import n_threads
from mercer._runtime.devices import device_named
from mercer._runtime.progress import CallbackSupportMixin, verbosity, with_callbacks
from mercer._runtime.random import RandomStateLike, Slot, key_from, shuffled
from mercer._runtime.rows import FarRows
from mercer._runtime.state import Checked, State, is_array
from mercer._runtime.threads import one_blas_thread
from mercer._runtime.validation import check_weights, group_codes, positive_number
from mercer.auto.calibration import Conformal
from mercer.auto.course import (
    first_rungs,
    has_time_twice,
    is_few,
    last_rungs,
    part_from_partner,
    trials_end,
)
from mercer.auto.deadline import Deadline
from mercer.auto.final import FinalModel, PipelineBuilder
from mercer.auto.fits import STEPS, fit_rows
from mercer.auto.goals import Classes, Numbers
from mercer.auto.landmarks import Landmarks
from mercer.auto.leaks import warn_of_leaks
from mercer.auto.leaves import Cut
from mercer.auto.ledger import PREPARATION
from mercer.auto.means import MeanModel, tree_count
from mercer.auto.order import time_codes, warn_of_order
from mercer.auto.own_loss import check_knows_offset, try_log_odds
from mercer.auto.progress import Monitor, checked_verbose, form_in_words
from mercer.auto.scoring import ByScorer, Judge, checked_scorer, quiet_scores, scored
from mercer.auto.search import Search
from mercer.auto.targets import LogTargetRegressor, evened
from mercer.auto.trials import Settings, log_odds_loss
from mercer.auto.tuning import TUNING
from mercer.auto.unmet import UnmetErrors, unmet_errors, warn_of_unmet
from mercer.estimators.local import LocalKernelMachine
from mercer.estimators.machine import KernelMachine
from mercer.estimators.scaling import InputScaler
from mercer.estimators.targets import class_weights
from mercer.explain.members import mean_sizes
from mercer.preparation import (
    TablePreparer,
    TellsColumns,
    column_names,
    has_identities,
    label_ways,
    read,
    rows_of,
)
from mercer.preparation.gaps import checked_like, read_like
from mercer.preparation.repeats import copies_in
from mercer.preparation.unmet import Unmet, unmet_labels

__all__ = ["AutoKernelMachine", "counted_rows"]

_MOST_HELD = 3000  # rows of ``held_out_``: with predictions of two classes, 120 kB
_BACKGROUND_ROWS = 300  # treated rows by which a model explains itself: 24 kB of 20 columns


class AutoKernelMachine(TellsColumns, Checked, CallbackSupportMixin, BaseEstimator):
    """Treatment, scales, kernel and strength chosen on held-out rows, then a fit to all."""

    _fitted_by: ClassVar[str] = "best_estimator_"
    _machine: ClassVar[type[KernelMachine]]  # up to TUNING.exact_rows rows; above, the next
    _local_machine: ClassVar[type[LocalKernelMachine]]
    _mean_model: ClassVar[type[MeanModel]]  # of two pipelines with local machines
    _target_kind: ClassVar[str]  # "continuous" or "classes"
    best_estimator_: Any
    best_settings_: dict[str, Any]
    partner_settings_: dict[str, Any] | None
    conformal_: Conformal
    validation_score_: float
    n_validation_rows_: int
    held_out_: dict[str, NDArray] | None

    def __init__(
        self,
        *,
        time_budget: float | None = None,
        scoring: Any = None,
        time: str | int | None = None,
        random_state: RandomStateLike = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        device: Any = None,
    ):
        self.time_budget = time_budget
        self.scoring = scoring
        self.time = time
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.device = device

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags

    # -- fitting -----------------------------------------------------------------------------

    @with_callbacks
    def _fit(self, rows: CountedRows, goal: Numbers | Classes) -> None:
        """Search, then fit to all rows with their targets or labels as given."""
        goal.places = rows.places
        try:
            with verbosity(checked_verbose(self.verbose)), one_blas_thread(self.n_jobs):
                self._search_and_fit(rows.X, rows.y, goal)
        except MemoryError as error:
            what, _, remedy = str(error).partition("; ")
            if not remedy:
                raise
            raise MemoryError(f"{what}; fit to fewer rows, or to fewer columns.") from error

    def _search_and_fit(self, X: Any, y: NDArray, goal: Numbers | Classes) -> None:
        for name in ("best_estimator_", "_importances"):  # of an earlier fit
            self.__dict__.pop(name, None)
        start = time.perf_counter()
        budget = np.inf
        if self.time_budget is not None:
            budget = positive_number(self.time_budget, "time_budget")
        n_threads(self.n_jobs)
        device_named(self.device)
        scorer = checked_scorer(self, self.scoring)
        goal.times = None if self.time is None else time_codes(X, self.time)
        key = key_from(self.random_state)
        judge = Judge(goal) if scorer is None else ByScorer(goal, scorer, X, y, key)
        monitor = Monitor(self, X, y)
        end = start + TUNING.search_share * budget
        search = Search(X, y, goal, key, self.n_jobs, end, judge, monitor)
        search.ledger.since = start
        self.interrupted_ = False
        form: FinalModel = None
        with quiet_scores():
            try:
                treatments, ways = self._treatments(X, key)
                search.has_identities = _has_identities(X, key)
                search.charge(PREPARATION)
                first_rungs(search, treatments, X.shape[1], ways)
                if np.isfinite(budget):
                    given = {"start": start, "budget": budget, "first": time.perf_counter() - start}
                    search.last_begin = partial(trials_end, search, **given)
                form = last_rungs(search, X, start + budget)
                if time.perf_counter() < search.deadline:
                    warn_of_order(search)
                if form is None and self.device is None:
                    try_log_odds(search)
                check_knows_offset(goal, search.settings.transform)
            except KeyboardInterrupt:
                if goal.offset is not None and search.settings.transform != "log-odds":
                    raise  # no responses yet that know the offset
                self.interrupted_ = True
                search.charge(search.stage.name or PREPARATION)
            searched = search.end()
            self._keep(search)
        search.forget_rows()  # the last fit may need their memory
        if not self.interrupted_:
            self._fit_finally(X, y, search, key, form, start + TUNING.end_share * budget, monitor)
        if self.interrupted_ and not self._has_model():
            self._fit_quickly(X, y, search, key)
        if len(self._pipelines()) == 1 and search.partner is not None:
            part_from_partner(search)  # for which there were too few trees, or no time
            with quiet_scores():
                self._keep(search)
        self.search_seconds_ = searched - start
        self.fit_seconds_ = time.perf_counter() - searched
        self.n_features_in_ = X.shape[1]
        self._measure_inputs(X, key)
        self._measure_errors(X, search)
        self._unmet_ = {}
        if not self.interrupted_ and time.perf_counter() < start + TUNING.end_share * budget:
            first = self._pipelines()[0]
            steps = first["preparer"], first["scaler"]
            beside = self.input_shares_, lambda *held: self._scores(search, *held), self.n_jobs
            self._unmet_ = unmet_errors(search, steps, X, y, *beside)
        if not self.interrupted_ and np.isinf(budget):
            warn_of_leaks(self, X, y, key)
        monitor.end_fit()

    def _treatments(self, X: Any, key: int) -> tuple[list[tuple[str, int]], list[str]]:
        """Settings of the ``TablePreparer`` to try: of numbers, the likeliest first, and labels."""
        if sparse.issparse(X):
            return [("robust", 0)], ["numbers"]
        treatments = [("robust", 0), ("standard", 0), ("quantile", 0)]
        sample = rows_of(X, shuffled(key, X.shape[0], TUNING.looked_rows, Slot.SHUFFLE))
        with warnings.catch_warnings():  # the last fit tells of columns that are left out
            warnings.filterwarnings("ignore", "columns are left out")
            preparer = TablePreparer(max_integers=TUNING.few_integers, random_state=0).fit(sample)
        n_columns = len(preparer.get_feature_names_out())
        if preparer.has_few_integers and n_columns <= max(TUNING.few_columns, 2 * X.shape[1]):
            treatments.append(("robust", TUNING.few_integers))
        parts = [part for _, part in preparer.parts_]
        return treatments, label_ways(parts, X.shape[0] > TUNING.looked_rows)

    def _fit_finally(
        self,
        X: Any,
        y: NDArray,
        search: Search,
        key: int,
        form: FinalModel,
        end: float,
        monitor: Monitor,
    ) -> None:
        """Fit the final form without held-out rows, to measure its errors, and then to all rows."""
        recipe, n = self._recipe(search), len(y)
        stages = form if isinstance(form, Landmarks) and form.n_rows is not None else None
        if isinstance(form, Landmarks) and stages is None and isinstance(X, FarRows):
            X = rows_of(X, np.arange(n))  # so few that one machine takes them at once
        try:
            with warnings.catch_warnings():  # learned scales differ on purpose
                warnings.filterwarnings("ignore", "the inputs' scales differ by a factor")
                tol, shared = recipe.tol(search, form, n), None
                if stages is None and not isinstance(form, Cut) and has_time_twice(search, n, end):
                    shared = recipe.shared_kernel(search, form, n)
                    if shared is None:
                        found = recipe.held_out(X, y, search, form, tol)
                        tol = self._measured(search, form, found, tol)
                pipelines = recipe.of_all_rows(search, n, form, tol)
                monitor.begin_fit(form_in_words(form, len(pipelines), n))
                estimator = pipelines[0] if len(pipelines) == 1 else self._mean_model(pipelines)
                self.best_estimator_ = self._of_target(estimator, search)
                deadline = [Deadline(end)] if np.isfinite(end) else []
                told = (*deadline, *monitor.relays())
                model = self.best_estimator_
                given = search.goal, None, shared, told, recipe.known, stages, key
                found = fit_rows(model, X, y, *given, next(iter(recipe.treated), None))
                if not search.goal.has_rule:  # else rows held out are not those of its rule
                    self._measured(search, form, found, tol)
                if shared is not None and shared.responses is not None:
                    tol = self._measured(search, form, (shared.rows, shared.responses), tol)
                    solver = self.kernel_machine_.solver
                    self.kernel_machine_.solver = replace(solver, tol=tol)
        except KeyboardInterrupt:
            self.interrupted_ = True

    def _measured(
        self, search: Search, form: FinalModel, found: tuple[NDArray, NDArray] | None, tol: float
    ) -> float:
        """Replace the held-out responses of the search by those of the final form.

        Return the tolerance of its fit.
        """
        if found is None:
            return tol
        rows, responses = found
        if search.choice is not None:
            search.choice = replace(search.choice, rows=rows, responses=responses)
        with quiet_scores():
            self._keep(search)
        return self._recipe(search).tol(search, form)

    def _fit_quickly(self, X: Any, y: NDArray, search: Search, key: int) -> None:
        """The best model so far, of the rows that were searched, after an interruption."""
        rows = np.sort(search.first_rows)
        form = TUNING.quick_features
        recipe = self._recipe(search)
        estimator = recipe.pipeline(search.settings, len(rows), form, recipe.tol(search, form))
        self.best_estimator_ = self._of_target(estimator, search)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "the inputs' scales differ by a factor")
            fit_rows(self.best_estimator_, X, y, search.goal, rows, known_scales=recipe.known)
        warnings.warn(
            f"fit was interrupted; the model is the best one so far, fitted to {len(rows)} of "
            f"{len(y)} rows.",
            UserWarning,
            stacklevel=4,
        )

    def _has_model(self) -> bool:
        """True if coefficients exist; a local machine needs one tree with all leaves solved."""
        if not hasattr(self, "best_estimator_"):
            return False
        machine = self.kernel_machine_
        is_whole = not isinstance(machine, LocalKernelMachine) or (
            getattr(machine, "optimality_", 1.0) < 1
        )
        return hasattr(machine, "map_coef_") and is_whole

    def _recipe(self, search: Search) -> PipelineBuilder:
        """Builder of the pipelines of all rows."""
        models = self._machine, self._local_machine
        n_classes = search.goal.n_classes if isinstance(search.goal, Classes) else 2
        return PipelineBuilder(
            *(*models, self._target_kind, search.key, self.n_jobs, self.device),
            *(search.known_scales, log_odds_loss(n_classes).name),
        )

    def _of_target(self, estimator: Any, search: Search) -> Any:
        """The estimator, or one of the logarithms of the targets."""
        if search.settings.transform != "log" or search.held_responses is None:
            return estimator
        residuals = search.goal.truth(search.held_rows, "log") - search.held_responses
        weights = search.goal.weights_of(search.held_rows)
        return LogTargetRegressor(estimator, evened(residuals[:, 0], weights))

    def _keep(self, search: Search) -> None:
        """Make a table of the trials, and calibrate by the held-out rows."""
        records, names = search.ledger.rows, Settings.__dataclass_fields__

        def one(settings: Settings, name: str) -> Any:
            value = getattr(settings, name)
            return ", ".join(value) if isinstance(value, tuple) else value

        self.search_results_ = {
            "stage": np.array([r.stage for r in records], dtype=str),
            "rows": np.array([r.rows for r in records], dtype=np.int64),
            **{name: np.array([one(r.settings, name) for r in records]) for name in names},
            **{
                name: np.array([getattr(r, name) for r in records], dtype=np.float64)
                for name in ("loss", "error", *(["score"] if self.scoring else []))
            },
            "seconds": np.array(search.ledger.seconds),
            "machine_seconds": np.array([r.seconds for r in records], dtype=np.float64),
            "chosen": np.array([r is search.best for r in records], dtype=bool),
        }
        self.best_settings_ = {name: getattr(search.settings, name) for name in names}
        partner = search.partner
        self.partner_settings_ = None if partner is None else asdict(partner)
        self.validation_score_, self.n_validation_rows_ = np.nan, 0
        if search.held_responses is not None:
            held = search.held_responses, search.held_rows, search.settings.transform
            self.validation_score_ = search.judge.score(*held)
            self.n_validation_rows_ = len(search.held_rows)
        self._calibrate(search)
        self.held_out_ = None
        if search.held_responses is not None:
            told = {"row": search.goal.places[search.held_rows]}
            told |= self._held_predictions(search, search.held_responses)
            self.held_out_ = {name: values[:_MOST_HELD] for name, values in told.items()}

    def _calibrate(self, search: Search) -> None:
        raise NotImplementedError

    def _held_predictions(self, search: Search, responses: NDArray) -> dict[str, NDArray]:
        """Targets of the held-out rows and predictions of them by models that lack them."""
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        """State without ``held_out_``: targets of single rows are no part of a model file."""
        left_out = "held_out_", "_importances"
        return {k: v for k, v in super().__getstate__().items() if k not in left_out}

    def _measure_inputs(self, X: Any, key: int) -> None:
        """Set the columns' shares in distances, and treated rows that explain the model."""
        sample = rows_of(X, shuffled(key, X.shape[0], TUNING.looked_rows, Slot.SHUFFLE))
        shares, self._background = [], []
        for pipeline in self._pipelines():
            treated = pipeline["preparer"].transform(sample)
            self._background.append(treated[:_BACKGROUND_ROWS].copy())
            rows = pipeline["scaler"].transform(treated)
            spread = abs(rows - rows[np.roll(np.arange(rows.shape[0]), 1)]).mean(axis=0)
            origins = pipeline["preparer"].origins_[pipeline["scaler"].scales_ != 0]
            sums = np.bincount(origins, np.asarray(spread).ravel(), minlength=X.shape[1])
            shares.append(sums / (sums.sum() or 1.0))
        self.input_shares_ = np.mean(shares, axis=0)

    def _measure_errors(self, X: Any, search: Search) -> None:
        """Keep how far predictions of the held-out rows are off."""

    def _scores(self, search: Search, rows: NDArray, responses: NDArray) -> NDArray:
        """Errors of responses (m, k) to some rows, for sets and intervals."""
        raise NotImplementedError

    def _met(self, X: Any) -> tuple[Any, dict[int, Unmet]]:
        """Rows, checked and read once for all pipelines, and the labels that the fit has not met.

        Labels that the fit has not met are warned of.
        """
        preparers = [pipeline.steps[0][1] for pipeline in self._pipelines()]
        X = checked_like(self, preparers, X)
        columns = read_like(preparers, X)
        laws = vars(self).get("_unmet_", {})  # which older files lack
        if columns is None or not laws:
            return X if columns is None else columns, {}
        numbers = {place: law.known for place, law in laws.items() if law.known is not None}
        unmet = unmet_labels(preparers[0], columns, laws, numbers)
        warn_of_unmet(columns.names, unmet, laws)
        return columns, unmet

    def _check_state(self) -> None:
        state = State(self)
        kinds = Pipeline, MeanModel
        estimator = state.instance("best_estimator_", (*kinds, LogTargetRegressor))
        if isinstance(estimator, LogTargetRegressor):
            estimator._check_state()
            estimator = State(estimator).instance("regressor_", kinds)
        if isinstance(estimator, MeanModel):
            estimator._check_state()
        fit = all(map(_is_whole, self._pipelines()))
        state.check("best_estimator_", f"be of the steps {', '.join(STEPS)}", fit)
        state.instance("validation_score_", float)
        if "_has_offset_" in vars(self):
            state.flag("_has_offset_")
        state.integer("n_validation_rows_")
        scores = State(state.instance("conformal_", Conformal))
        scores.check("scores", "be an array of floats", is_array(self.conformal_.scores, None))
        laws = vars(self).get("_unmet_", {})
        fit = isinstance(laws, dict) and all(isinstance(law, UnmetErrors) for law in laws.values())
        state.check("_unmet_", "hold errors by columns", fit)
        for law in laws.values():
            law.check_state()
        for rows in vars(self).get("_background", []):
            state.check("_background", "hold rows", getattr(rows, "ndim", 0) == 2)

    def _score(self, X: Any, y: Any, sample_weight: Any, usual: Callable[..., float]) -> float:
        """Score of predictions by ``scoring``, or by ``usual`` without it."""
        scorer = checked_scorer(self, self.scoring)
        if scorer is None:
            return usual(X, y, sample_weight)
        beside = {} if sample_weight is None else {"sample_weight": sample_weight}
        return scored(scorer, self, X, y, **beside)

    # -- parts ---------------------------------------------------------------------------------

    def _pipelines(self) -> list[Pipeline]:
        """The pipelines whose mean ``best_estimator_`` is, one for all models but local ones."""
        estimator = self.best_estimator_
        if isinstance(estimator, LogTargetRegressor):
            estimator = getattr(estimator, "regressor_", estimator.regressor)
        if isinstance(estimator, MeanModel):
            return list(getattr(estimator, "pipelines_", estimator.pipelines))
        return [estimator]

    @property
    def kernel_machine_(self) -> Any:
        """Kernel machine of ``best_estimator_``; the first one if it is a mean of pipelines."""
        return self._pipelines()[0].named_steps["model"]

    @property
    def feature_importances_(self) -> NDArray:
        """Mean absolute Shapley value of every input column, computed when it is first read."""
        self._check_fitted()
        if "_importances" not in vars(self):
            self._importances = mean_sizes(self)
        return self._importances

    def explained_members(self) -> tuple[list[tuple[float, Any, Any]], str]:
        """Shares, fitted pipelines and rows of a background of each, and the unit of responses."""
        pipelines = self._pipelines()
        trees = [tree_count(pipeline) for pipeline in pipelines] if len(pipelines) > 1 else [1]
        kept = vars(self).get("_background", [None] * len(pipelines))
        shares = [count / sum(trees) for count in trees]
        unit = "target" if self._target_kind == "continuous" else "decision function"
        if isinstance(self.best_estimator_, LogTargetRegressor):
            unit = "logarithm of the target"
        return list(zip(shares, pipelines, kept, strict=True)), unit

    @property
    def columns_(self) -> dict[str, NDArray]:
        """Kind and treatment of every input column; see ``TablePreparer``."""
        self._check_fitted()
        columns: dict[str, NDArray] = self._pipelines()[0]["preparer"].columns_
        return columns

    def _unused_columns(self) -> list[str]:
        lists = [pipeline["preparer"]._unused_columns() for pipeline in self._pipelines()]
        return [name for name in lists[0] if all(name in others for others in lists[1:])]


@dataclass(frozen=True)
class CountedRows:
    """Rows of a fit with a weight above 0, each once: weights of mean 1, None if all are equal."""

    X: Any
    y: NDArray
    weights: NDArray | None
    groups: NDArray | None  # numbered from 0 on
    offset: NDArray | None
    places: NDArray[np.int64]  # (n,) among the rows as given

    def taken(self, rows: NDArray[np.int64], weights: NDArray | None = None) -> CountedRows:
        """Some rows, with other weights if there are any."""
        X = self.X.taken(rows) if isinstance(self.X, FarRows) else rows_of(self.X, rows)
        own, groups, offset = (
            None if each is None else each[rows]
            for each in (self.weights, self.groups, self.offset)
        )
        own = own if weights is None else weights
        return CountedRows(X, self.y[rows], own, groups, offset, self.places[rows])

    def weighted(self) -> CountedRows:
        """The rows whose weight is not 0."""
        if self.weights is None or self.weights.all():
            return self
        return self.taken(np.flatnonzero(self.weights))


def counted_rows(
    model: AutoKernelMachine,
    X: Any,
    y: NDArray,
    sample_weight: Any,
    groups: Any,
    offset: NDArray | None = None,
) -> CountedRows:
    """The rows of X and y that count, weighted by their class if the model says so.

    Copies of rows are merged, and a warning tells of them.
    """
    weights, groups = check_weights(sample_weight, X), group_codes(groups, X)
    rows = CountedRows(X, y, weights, groups, offset, np.arange(len(y))).weighted()
    by_chance = groups is None and model.time is None  # which rows are held out
    remedy = "give groups=, a label per unit such as a person, if they will not"
    beside, labels = (rows.groups, rows.offset), rows.y if is_classifier(model) else None
    labels = None if labels is None or labels.ndim > 1 else labels
    copies = copies_in(rows.X, rows.y, beside, labels, remedy if by_chance else None)
    if copies is not None:
        rows = rows.taken(copies.first, copies.weights(rows.weights))
    class_weight = getattr(model, "class_weight", None)
    if class_weight is not None:
        weights = class_weights(class_weight, rows.weights, rows.X, rows.y)
        rows = replace(rows, weights=weights).weighted()
    if len(rows.y) < 2:
        counted = "" if rows.weights is None else " with a weight above 0"
        raise ValueError(f"X must have at least 2 rows{counted}; got n_samples={len(rows.y)}.")
    if rows.groups is not None:
        present, codes = np.unique(rows.groups, return_inverse=True)
        if len(present) < 2:
            raise ValueError("groups must hold at least two groups; got one.")
        rows = replace(rows, groups=codes)
    if rows.weights is not None:
        weights = rows.weights
        even = (weights == weights[0]).all()
        rows = replace(rows, weights=None if even else weights / weights.mean())
    return rows


def _has_identities(X: Any, key: int) -> bool:
    """Whether values of a table repeat that an exact machine may tell apart."""
    if sparse.issparse(X) or not is_few(X.shape[0]):
        return False
    sample = rows_of(X, shuffled(key, X.shape[0], TUNING.fitted_rows, Slot.SHUFFLE))
    with warnings.catch_warnings():  # the last fit tells how texts are read
        warnings.simplefilter("ignore")
        return has_identities(read(sample, column_names(X)), TablePreparer().max_labels)


def _is_whole(pipeline: Pipeline) -> bool:
    """Whether a pipeline is of the steps that an automatic model puts together."""
    kinds: tuple[Any, ...] = (TablePreparer, InputScaler, (KernelMachine, LocalKernelMachine))
    steps = vars(pipeline).get("steps")
    whole = isinstance(steps, list) and [name for name, _ in steps] == list(STEPS)
    return whole and all(isinstance(s[1], k) for s, k in zip(steps, kinds, strict=True))
