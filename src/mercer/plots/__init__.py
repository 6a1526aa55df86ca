"""Figures: displays in scikit-learn's form, a page about a model, and figures of records.

A display is made by ``from_estimator`` or ``from_predictions``, draws on the ``ax`` it is given or
on a new figure, and keeps data and artists. Where those of scikit-learn serve there are none here:
``sklearn.model_selection.LearningCurveDisplay``, ``sklearn.inspection.DecisionBoundaryDisplay`` and
``PartialDependenceDisplay`` (raw frames, too) take the models of this library.
"""

from mercer.plots.base import save_figure
from mercer.plots.calibration import CalibrationDisplay, CoverageDisplay
from mercer.plots.choice import SearchDisplay, choice_figure
from mercer.plots.compare import compare_figure
from mercer.plots.convergence import ConvergenceDisplay
from mercer.plots.explanation import write_explanation
from mercer.plots.importances import ImportanceDisplay
from mercer.plots.kernel_error import KernelErrorDisplay
from mercer.plots.partition import PartitionDisplay
from mercer.plots.paths import PathDisplay
from mercer.plots.report import write_report
from mercer.plots.shapley import ShapleyDisplay

__all__ = [
    "CalibrationDisplay",
    "ConvergenceDisplay",
    "CoverageDisplay",
    "ImportanceDisplay",
    "KernelErrorDisplay",
    "PartitionDisplay",
    "PathDisplay",
    "SearchDisplay",
    "ShapleyDisplay",
    "choice_figure",
    "compare_figure",
    "save_figure",
    "write_explanation",
    "write_report",
]
