"""The model of all rows: unfitted pipelines, their tolerance, and their errors on held-out rows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.pipeline import Pipeline

from mercer import kernels
from mercer._runtime.rows import PreparedRows
from mercer.auto.fits import STEPS, Fit, TreatedRows, fit_rows
from mercer.auto.holdout import (
    final_splits,
    final_tol,
    leave_one_out,
    leave_one_out_log_odds,
    relative_error,
)
from mercer.auto.landmarks import Landmarks
from mercer.auto.leaves import Cut
from mercer.auto.means import answer
from mercer.auto.parts import last_scale_rows
from mercer.auto.search import Search
from mercer.auto.trials import (
    METRICS,
    KnownScales,
    Settings,
    feature_map,
    feature_tol,
    log_odds,
)
from mercer.auto.tuning import TUNING
from mercer.estimators.left_out_scales import LeftOutScaler
from mercer.estimators.local import LocalKernelMachine
from mercer.estimators.machine import KernelMachine
from mercer.estimators.plan import HeldOut
from mercer.estimators.scales import GradientScaler
from mercer.maps import ExactKernel, FeatureMap
from mercer.preparation import TablePreparer, rows_of
from mercer.solvers import ConjugateGradient, RowNewton

__all__ = ["FinalModel", "PipelineBuilder"]

# Of the final model: the number of random features, leaves and trees, landmarks, or None for the
# exact kernel.
FinalModel: TypeAlias = int | Cut | Landmarks | None


@dataclass(frozen=True)
class PipelineBuilder:
    """Builder of pipelines with the settings that a search has chosen."""

    machine: type[KernelMachine]  # last step of a pipeline of all rows together
    local_machine: type[LocalKernelMachine]  # last step of a pipeline of leaves
    target: str  # "continuous" or "classes"
    key: int  # seed of all random numbers
    n_jobs: int | None
    device: Any
    # Scales of least left-out error by the names of columns, and their ridge, by treatment and
    # kernel.
    known: KnownScales = field(default_factory=dict)
    log_odds_loss: str = "logistic"  # whose responses are log odds of the classes
    # All rows, if each was left out in turn, as the last fit treats them; at most one entry.
    treated: list[TreatedRows] = field(default_factory=list)

    def tol(self, search: Search, form: FinalModel, n: int | None = None) -> float:
        """Relative residual at which the final fit ends, by the held-out errors of the search.

        ``n`` is the number of rows of the final fit if the errors are of a model of fewer rows.
        """
        rough, choice = self._rough(form), search.choice
        if choice is None:
            return rough
        held = choice.rows, choice.responses, choice.record.settings.transform
        growth = 1.0 if n is None else max(1.0, n / choice.record.rows)
        return final_tol(rough, relative_error(search.goal, *held), growth)

    def _rough(self, form: FinalModel) -> float:
        """Relative residual that serves a form where errors are large."""
        return TUNING.landmark_tol if isinstance(form, Landmarks) else TUNING.tol[self.target]

    def pipeline(
        self, settings: Settings, n: int, form: FinalModel, tol: float, place: int = 0
    ) -> Pipeline:
        """Unfitted pipeline for n rows; those that share trees differ in ``place``, of the seed."""
        seed = int((self.key + place) % 2**31)
        scaler = self._scaler(settings, n, seed)
        model: Any
        if isinstance(form, Cut):
            model = self._local(settings, n, form, seed)
        elif form is None:
            model = self._exact(settings, n, tol, seed)
        else:
            model = self._of_features(settings, n, form, tol, seed)
        return Pipeline(list(zip(STEPS, (self._preparer(settings), scaler, model), strict=True)))

    def _scaler(self, settings: Settings, n: int, seed: int) -> GradientScaler | LeftOutScaler:
        if settings.scales == "left-out":
            known = self.known.get((settings.treatment, settings.kernel))
            return LeftOutScaler(
                settings.kernel,
                settings.power,
                max_rows=TUNING.left_out_rows,
                target=self.target,
                known=None if known is None else (list(known[0].values()), known[1]),
                random_state=seed,
            )
        return GradientScaler(
            settings.power,
            full=settings.turned,
            kernel=settings.scales_kernel,
            metric=METRICS[settings.kernel],
            target=self.target,
            n_components=TUNING.scale_cosines,
            max_rows=last_scale_rows(n),
            random_state=seed,
        )

    def _preparer(self, settings: Settings) -> TablePreparer:
        return TablePreparer(
            settings.numbers,
            max_integers=settings.max_integers,
            labels=settings.labels,
            identities=settings.identities,
            without=settings.without,
            target=self.target,
            dtype="float32",
            random_state=int(self.key % 2**31),
        )

    def _local(self, settings: Settings, n: int, form: Cut, seed: int) -> LocalKernelMachine:
        return self.local_machine(
            settings.kernel,
            gamma=settings.gamma,
            alpha=settings.ridge / n,
            leaf_size=form.leaf_size,
            n_trees=form.n_trees,
            overlap=form.overlap,
            scale=False,
            n_jobs=self.n_jobs,
            random_state=seed,
            device=self.device,
        )

    def _exact(self, settings: Settings, n: int, tol: float, seed: int) -> KernelMachine:
        map_: FeatureMap = ExactKernel(settings.kernel, settings.gamma, n_jobs=self.n_jobs)
        solver: Any = "cholesky"
        if settings.transform == "log-odds":
            solver = RowNewton(TUNING.log_odds_tol)
        elif not self._is_direct(settings, n):
            rank = int(TUNING.rank[settings.kernel] * np.sqrt(n))
            preconditioner = TUNING.preconditioner[settings.kernel]
            solver = ConjugateGradient(
                tol, preconditioner=preconditioner, rank=rank, random_state=seed
            )
        alpha, loss = settings.ridge / n, self._loss(settings)
        return self.machine(
            map_, loss=loss, scale=False, alpha=alpha, solver=solver, device=self.device
        )

    def _loss(self, settings: Settings) -> str:
        return self.log_odds_loss if settings.transform == "log-odds" else "squared"

    @staticmethod
    def _is_direct(settings: Settings, n: int) -> bool:
        """Whether a factor of all n rows takes less time than iterations with that ridge."""
        if n <= TUNING.direct_rows:
            return True
        return (
            n <= TUNING.most_direct_rows and settings.ridge <= TUNING.direct_ridge[settings.kernel]
        )

    def _leaves_each_out(self, settings: Settings, form: FinalModel, n: int) -> bool:
        """Whether one factor gives the responses to every row left out in turn."""
        if settings.transform == "log-odds":
            return n <= TUNING.direct_rows and self.log_odds_loss == "logistic"
        return form is None and self._is_direct(settings, n)

    def _of_features(
        self, settings: Settings, n: int, form: int | Landmarks, tol: float, seed: int
    ) -> KernelMachine:
        map_ = feature_map(settings, form, self.key, self.n_jobs)
        of_stage = form.n_rows if isinstance(form, Landmarks) else None
        alpha = settings.ridge / (of_stage or n)
        if isinstance(form, int):
            tol = min(tol, feature_tol(settings, self.target))
            return self.machine(map_, loss=self._loss(settings), scale=False, alpha=alpha, tol=tol)
        solver = ConjugateGradient(tol, random_state=seed)
        return self.machine(map_, scale=False, alpha=alpha, solver=solver, device=self.device)

    def of_all_rows(self, search: Search, n: int, form: FinalModel, tol: float) -> list[Pipeline]:
        """Unfitted pipelines whose mean is the model: one, or two that share its trees."""
        if not isinstance(form, Cut) or search.partner is None or form.n_trees < 2:
            return [self.pipeline(search.settings, n, form, tol)]
        fewer = form.n_trees // 2
        most = replace(form, n_trees=form.n_trees - fewer)
        return [
            self.pipeline(search.settings, n, most, tol),
            self.pipeline(search.partner, n, replace(form, n_trees=fewer), tol, 1),
        ]

    # -- errors --------------------------------------------------------------------------------

    def held_out(
        self, X: Any, y: NDArray, search: Search, form: FinalModel, tol: float
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]] | None:
        """Held-out rows, and the responses (h, k) of the final form, fitted to all others, to them.

        None if the errors of the search serve, or none are found: up to 1000 rows it has held out
        each of them once, as a rule from nearly as many. Of log odds, the errors of their choice
        serve, but for each row of a few thousand of two classes left out in turn.
        """
        goal, n = search.goal, len(y)
        if search.best is None:
            return None
        if n <= TUNING.fold_rows and (
            n < TUNING.few_rows or search.best.rows >= TUNING.nearly_all * n
        ):
            return None
        is_each = self._leaves_each_out(search.settings, form, n)
        if is_each and n > TUNING.fold_rows and not goal.has_rule:
            found = self._left_out(X, y, search)
            return None if found is None else (np.arange(n), found)
        if search.settings.transform == "log-odds":
            return None
        rows, responses = [], []
        for fitted, held in final_splits(goal, self.key, n):
            if not goal.has_all_classes(fitted):
                return None
            pipeline = self.pipeline(search.settings, len(fitted), form, tol)
            target = self._target(search, y)
            fit_rows(pipeline, X, target, goal, fitted, known_scales=self.known)
            method = "decision_function" if goal.kind == "classes" else "predict"
            rows.append(held)
            responses.append(answer(pipeline, method, rows_of(X, held)).reshape(len(held), -1))
        return np.concatenate(rows), np.concatenate(responses).astype(np.float64)

    def shared_kernel(self, search: Search, form: FinalModel, n: int) -> HeldOut | None:
        """Rows that the final fit leaves out of a first solution, whose kernel it shares.

        None if ``held_out`` serves: for features, for so few rows that several parts are held out,
        for targets under a transform, which need their errors before the fit, and by time, as codes
        of labels would know later targets.
        """
        settings, goal = search.settings, search.goal
        if isinstance(form, (int, Cut)) or search.best is None or n <= TUNING.direct_rows:
            return None
        if form is None and self._is_direct(search.settings, n):
            return None
        if goal.times is not None:
            return None
        parts = final_splits(goal, self.key, n)
        if len(parts) > 1 or settings.transform != "identity":
            return None
        fitted, rows = parts[0]
        if not goal.has_all_classes(fitted):
            return None
        rough = self._rough(form)

        def tol(responses: NDArray[np.float64]) -> float:
            return final_tol(rough, relative_error(goal, rows, responses, "identity"))

        return HeldOut(rows, tol)

    def _target(self, search: Search, y: NDArray) -> NDArray:
        """Targets as the pipeline takes them: labels, or numbers under the transform."""
        if search.goal.kind == "classes" or search.settings.transform == "identity":
            return y
        return search.goal.truth(np.arange(len(y)), search.settings.transform)[:, 0]

    def _left_out(self, X: Any, y: NDArray, search: Search) -> NDArray[np.float64] | None:
        """Responses of the exact machine to each row left out in turn, in scales of all rows."""
        goal, settings = search.goal, search.settings
        pipeline = self.pipeline(settings, len(y), None, TUNING.tol[self.target])
        target = self._target(search, y)
        fit = Fit(scaler_weights=goal.weights, known_scales=self.known)
        Z = fit.treated(pipeline, X, target)
        if goal.weights is None and goal.groups is None:  # which the last fit gives the preparer
            steps = pipeline["preparer"], pipeline["scaler"]
            self.treated.append(TreatedRows(*steps, target, Z))
        if sparse.issparse(Z):
            return None
        Z = Z.together() if isinstance(Z, PreparedRows) else Z
        matrix = np.asarray(kernels.get(settings.kernel, settings.gamma)(Z.astype(np.float64)))
        truth = goal.truth(np.arange(len(y)), settings.transform)
        if settings.transform != "log-odds":
            left_out = leave_one_out(matrix, truth, settings.ridge, goal.weights)
            if left_out is not None and self.treated:  # whose last fit begins with the solution
                theta = left_out.theta
                theta[-1] -= truth.mean(axis=0)  # which the machine takes off the targets
                self.treated[0] = replace(self.treated[0], theta=theta)
            return None if left_out is None else left_out.responses
        given = settings, Z, Z, truth, [settings.ridge], goal.weights, self.n_jobs
        [found] = log_odds(*given, goal.offset, goal.offset)
        if found is None:
            return None
        pairs = zip(found.T[..., None], truth.T[..., None], strict=True)
        own = (matrix if found.shape[1] == 1 else matrix.copy() for _ in found.T)
        columns = [
            leave_one_out_log_odds(each, *pair, settings.ridge, goal.weights, goal.offset)
            for each, pair in zip(own, pairs, strict=True)
        ]
        whole = [column for column in columns if column is not None]
        return np.concatenate(whole, axis=1) if len(whole) == len(columns) else None
