"""Displays show what fitted models keep, on new axes or on those given."""

import inspect
import re
import warnings

import numpy as np
import pandas as pd
import pytest

from mercer import (
    AutoKernelClassifier,
    AutoKernelRegressor,
    DoublySGDRegressor,
    KernelClassifier,
    KernelRegressor,
    LocalKernelRegressor,
    SparseKernelRegressor,
    maps,
    plots,
)
from mercer.diagnostics import kernel_error

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402


@pytest.fixture(autouse=True)
def _no_figures_stay():
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    return X, np.sin(2 * X[:, 1]) + 0.1 * rng.normal(size=300)


@pytest.fixture(scope="module")
def regressor(rows):
    return AutoKernelRegressor(random_state=0).fit(*rows)


@pytest.fixture(scope="module")
def of_many_classes():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(780, 4))
    y = np.array([f"class {chr(65 + k)}" for k in (np.arange(780) % 26)])
    return X, y


def texts(axes):
    labels = [*axes.get_xticklabels(), *axes.get_yticklabels()]
    return [label.get_text() for label in labels]


DISPLAYS = [each for name in plots.__all__ if inspect.isclass(each := getattr(plots, name))]


@pytest.mark.parametrize("display", DISPLAYS, ids=lambda display: display.__name__)
def test_methods_of_displays_explain_their_parameters_in_order(display):
    methods = [name for name in vars(display) if not name.startswith("_")]
    for method in (display, *(getattr(display, name) for name in methods)):
        if not callable(method):
            continue
        doc = inspect.getdoc(method)
        section = re.search(r"^Parameters\n-+\n(.*?)(?=\n\n[A-Z]\w+\n-|\Z)", doc, re.M | re.S)[1]
        heads = [line.partition(" : ")[0] for line in section.splitlines() if line[:1] != " "]
        names = [name.strip("*") for head in heads for name in head.split(", ")]
        assert names == [n for n in inspect.signature(method).parameters if n != "self"]
        assert not re.search(r"^\s*\{", doc, re.M)


# -- every display -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def all_displays(rows, regressor):
    X, y = rows
    path = KernelRegressor("exact", alphas=[1e-6, 1e-4, 1e-2], random_state=0).fit(X, y)
    local = LocalKernelRegressor(leaf_size=60, n_trees=2, random_state=0).fit(X, y)
    logistic = KernelClassifier("binning", loss="logistic", random_state=0).fit(X, y > 0)
    map_ = maps.RandomFourier(gamma=0.5, random_state=0)
    kernel_maps = {"n_components": (8, 32)}
    bins = KernelRegressor("binning", n_components=16, random_state=0).fit(X, y)
    return [
        lambda **kw: plots.PathDisplay.from_estimator(path, **kw),
        lambda **kw: plots.ConvergenceDisplay.from_estimator(bins, **kw),
        lambda **kw: plots.CalibrationDisplay.from_estimator(logistic, X, y > 0, **kw),
        lambda **kw: plots.CoverageDisplay.from_estimator(regressor, X, y, **kw),
        lambda **kw: plots.SearchDisplay.from_estimator(regressor, **kw),
        lambda **kw: plots.ImportanceDisplay.from_estimator(regressor, **kw),
        lambda **kw: plots.KernelErrorDisplay.from_estimator(map_, X, **kernel_maps, **kw),
        lambda **kw: plots.PartitionDisplay.from_estimator(local, resolution=30, **kw),
    ]


def test_every_display_draws_on_a_new_figure_or_on_axes_given_and_again(all_displays):
    for make in all_displays:
        display = make()
        assert display.figure_ is display.ax_.figure
        assert display.ax_.get_xlabel()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            display.figure_.canvas.draw()
        _, axes = pyplot.subplots()
        assert make(ax=axes).ax_ is axes
        again = display.plot()
        assert again is display
        assert display.figure_ is not axes.figure
        pyplot.close("all")


def test_displays_without_axes_take_no_axes_of_others():
    _, axes = pyplot.subplots()
    display = plots.ImportanceDisplay(["a"], [1.0]).plot()
    assert display.ax_ is not axes


@pytest.mark.parametrize(
    ("make", "known"),
    [
        (lambda m: plots.PathDisplay.from_estimator(m), "alphas, gamma_path or alpha='cv'"),
        (lambda m: plots.ConvergenceDisplay.from_estimator(m), "trace_, rounds_ or loss_curve_"),
        (lambda m: plots.CoverageDisplay.from_estimator(m, 0, 0), "predict_interval"),
        (lambda m: plots.CalibrationDisplay.from_estimator(m, 0, 0), "predict_proba"),
        (lambda m: plots.SearchDisplay.from_estimator(m), "AutoKernelClassifier"),
        (lambda m: plots.ImportanceDisplay.from_estimator(m), "input_shares_"),
        (lambda m: plots.PartitionDisplay.from_estimator(m), "LocalKernelRegressor"),
        (lambda m: plots.KernelErrorDisplay.from_estimator(m, 0), "n_components"),
    ],
)
def test_something_else_or_unfitted_gets_a_sentence(make, known):
    for other in (KernelRegressor("binning"), object()):
        with pytest.raises(TypeError, match=rf"(?s)estimator must be.*{known}") as refusal:
            make(other)
        assert "\n" not in str(refusal.value)
        assert type(other).__name__ in str(refusal.value)


def test_missing_matplotlib_is_one_sentence(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'mercer\[cli\]'"):
        plots.ImportanceDisplay(["a"], [1.0]).plot()


# -- paths -------------------------------------------------------------------------------------


def test_a_path_shows_losses_and_marks_the_strength_chosen(rows):
    alphas = [1e-2, 1e-6, 1e-4]
    model = KernelRegressor("exact", alphas=alphas, random_state=0).fit(*rows)
    display = plots.PathDisplay.from_estimator(model)
    np.testing.assert_array_equal(display.line_.get_xdata(), sorted(alphas))
    np.testing.assert_array_equal(display.scores, -model.path_["score"])
    assert display.chosen == model.alpha_
    assert display.chosen_.get_xdata()[0] == model.alpha_
    assert display.chosen_.get_ydata()[0] == display.scores.min()
    assert "left out" in display.ax_.get_ylabel()


def test_the_machine_is_found_inside_searches_and_pipelines(rows):
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    machine = KernelRegressor("exact", alphas=[1e-6, 1e-2], random_state=0)
    pipeline = make_pipeline(StandardScaler(), machine)
    search = GridSearchCV(pipeline, {"kernelregressor__gamma": [0.1, 1.0]}, cv=2).fit(*rows)
    display = plots.PathDisplay.from_estimator(search)
    assert display.chosen == search.best_estimator_[-1].alpha_


def test_a_path_of_gammas_and_of_accuracies(rows):
    X, y = rows
    how = {"gamma_path": [0.1, 1.0], "alphas": [1e-4, 1e-2], "scoring": "accuracy"}
    model = KernelClassifier("fourier", n_components=64, random_state=0, **how).fit(X, y > 0)
    display = plots.PathDisplay.from_estimator(model, parameter="gamma")
    np.testing.assert_array_equal(display.scores, model.gamma_path_["score"])
    assert display.chosen == model.feature_map_.kernel_.gamma
    assert "accuracy" in display.ax_.get_ylabel()
    features = display.plot(kind="features")
    np.testing.assert_array_equal(features.line_.get_ydata(), model.gamma_path_["n_features"])
    with pytest.raises(ValueError, match="parameter must be one of 'alpha', 'gamma'"):
        plots.PathDisplay.from_estimator(model, parameter="beta")


def test_coefficients_of_a_path_are_the_largest(rows):
    X, y = rows
    how = {"alphas": [1e-5, 1e-3], "solver": "cg"}
    model = KernelRegressor("fourier", n_components=128, random_state=0, **how)
    display = plots.PathDisplay.from_estimator(model.fit(X, y), kind="coefficients")
    assert len(display.lines_) == 50
    largest = max(np.abs(line.get_ydata()).max() for line in display.lines_)
    assert largest == np.abs(model.path_["coef"]).max()
    with pytest.raises(ValueError, match="kind must be one that this path has data for"):
        display.plot(kind="features")


def test_models_of_a_sparse_path_are_scored_on_rows(rows):
    X, y = rows
    model = SparseKernelRegressor(n_new=16, max_rounds=2, random_state=0)
    models = model.path(X[:200], y[:200], [0.1, 0.01, 0.001])
    display = plots.PathDisplay.from_estimators(models, X[200:], y[200:])
    best = max(models, key=lambda m: m.score(X[200:], y[200:]))
    assert display.chosen == best.alpha_
    sizes = display.plot(kind="features").line_.get_ydata()
    assert sizes.tolist() == [m.n_features_active_ for m in models[::-1]]
    with pytest.raises(ValueError, match="at least one model"):
        plots.PathDisplay.from_estimators([], X, y)


# -- convergence -------------------------------------------------------------------------------


def test_the_trace_of_a_solver_and_its_goal(rows):
    model = KernelRegressor(solver="cg", n_components=64, random_state=0).fit(*rows)
    display = plots.ConvergenceDisplay.from_estimator(model)
    np.testing.assert_array_equal(display.line_.get_xdata(), [r.time for r in model.trace_])
    assert display.tol_.get_ydata()[0] == model.tol
    gap = plots.ConvergenceDisplay.from_estimator(model, x="iterations", y="objective")
    assert np.nanmin(gap.line_.get_ydata()) > 0
    assert gap.line_.get_xdata().tolist() == list(range(len(model.trace_)))
    with pytest.raises(ValueError, match="y must be one of 'optimality', 'objective'"):
        display.plot(y="loss")


def test_rounds_and_losses_of_steps_are_curves_too(rows):
    X, y = rows
    sparse = SparseKernelRegressor(n_new=16, max_rounds=3, random_state=0).fit(X, y)
    display = plots.ConvergenceDisplay.from_estimator(sparse, x="iterations")
    np.testing.assert_array_equal(display.line_.get_xdata(), [1, 2, 3])
    assert "rounds" in display.ax_.get_xlabel()
    doubly = DoublySGDRegressor(random_state=0).fit(X, y)
    display = plots.ConvergenceDisplay.from_estimator(doubly)
    assert display.ax_.get_xlabel() == "iterations"
    assert display.iterations[-1] == doubly.n_steps_
    with pytest.raises(ValueError, match="x must be one of 'iterations'"):
        display.plot(x="seconds")


def test_a_solution_in_one_step_and_several_models_on_the_same_axes(rows):
    direct = KernelRegressor("exact", solver="cholesky").fit(*rows)
    display = plots.ConvergenceDisplay.from_estimator(direct, y="objective", name="direct")
    other = KernelRegressor("binning", solver="cg", random_state=0).fit(*rows)
    more = plots.ConvergenceDisplay.from_estimator(other, y="objective", ax=display.ax_)
    assert more.line_.get_color() != display.line_.get_color()


def test_equal_tolerances_of_several_models_have_one_entry_in_the_legend(rows):
    axes = None
    for tol in (1e-2, 1e-3, 1e-3):
        model = KernelRegressor(solver="cg", n_components=64, tol=tol, random_state=0).fit(*rows)
        axes = plots.ConvergenceDisplay.from_estimator(model, y="optimality", ax=axes).ax_
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert [label for label in labels if "tol" in label] == ["tol = 0.01", "tol = 0.001"]


# -- calibration and coverage ------------------------------------------------------------------


def test_reliability_is_the_share_of_every_bin():
    proba = np.array([0.05, 0.1, 0.12, 0.9, 0.95, 0.55])
    y = np.array([0, 0, 1, 1, 1, 0])
    display = plots.CalibrationDisplay.from_predictions(y, proba, n_bins=2)
    np.testing.assert_allclose(display.prob_pred, [0.09, 0.8])
    np.testing.assert_allclose(display.prob_true, [1 / 3, 2 / 3])
    assert display.counts.tolist() == [3, 3]
    np.testing.assert_allclose(display.error, (abs(1 / 3 - 0.09) + abs(2 / 3 - 0.8)) / 2)
    assert len(display.bars_) == 2


def test_the_error_of_probabilities_counts_bins_by_their_rows():
    proba = np.array([0.1, 0.1, 0.1, 0.6])
    display = plots.CalibrationDisplay.from_predictions([0, 0, 0, 1], proba, n_bins=2)
    np.testing.assert_allclose(display.error, (3 * 0.1 + 0.4) / 4)


def test_reliability_agrees_with_that_of_scikit_learn():
    from sklearn.calibration import calibration_curve

    rng = np.random.default_rng(0)
    proba = rng.beta(0.5, 0.5, size=500)
    y = rng.random(500) < proba
    for strategy in ("uniform", "quantile"):
        display = plots.CalibrationDisplay.from_predictions(y, proba, strategy=strategy)
        true, predicted = calibration_curve(y, proba, n_bins=10, strategy=strategy)
        np.testing.assert_allclose(display.prob_true, true)
        np.testing.assert_allclose(display.prob_pred, predicted)
    assert display.bars_ is None


def test_of_many_classes_it_is_the_likeliest_or_the_one_asked_for():
    proba = np.array([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.1, 0.2, 0.7]])
    how = {"classes": ["a", "b", "c"], "n_bins": 1}
    display = plots.CalibrationDisplay.from_predictions(["a", "c", "c"], proba, **how)
    np.testing.assert_allclose([display.prob_pred, display.prob_true], [[0.6], [2 / 3]])
    one = plots.CalibrationDisplay.from_predictions(["a", "c", "c"], proba, pos_label="b", **how)
    np.testing.assert_allclose([one.prob_pred, one.prob_true], [[1 / 3], [0]])
    with pytest.raises(ValueError, match="pos_label must be one of the classes"):
        plots.CalibrationDisplay.from_predictions(["a"], proba[:1], pos_label="z", **how)
    with pytest.raises(ValueError, match="y_proba must have the shape"):
        plots.CalibrationDisplay.from_predictions(["a"], proba, **how)
    with pytest.raises(ValueError, match="strategy must be one of"):
        plots.CalibrationDisplay.from_predictions(["a", "c", "c"], proba, strategy="x", **how)


def test_coverage_counts_rows_in_intervals(regressor, rows):
    X, y = rows
    display = plots.CoverageDisplay.from_estimator(regressor, X, y, levels=[0.5, 0.9])
    for level, share, width in zip(display.levels, display.coverages, display.sizes, strict=True):
        low, high = regressor.predict_interval(X, coverage=level).T
        assert share == np.mean((low <= y) & (y <= high))
        np.testing.assert_allclose(width, np.mean(high - low))


def test_coverage_of_sets_of_classes(of_many_classes):
    X, y = of_many_classes
    model = AutoKernelClassifier(random_state=0).fit(X[:390], y[:390])
    display = plots.CoverageDisplay.from_estimator(model, X[390:], y[390:], levels=[0.9])
    sets = model.predict_set(X[390:], coverage=0.9)
    places = np.searchsorted(model.classes_, y[390:])
    assert display.coverages[0] == sets[np.arange(390), places].mean()
    assert display.sizes[0] == sets.sum(axis=1).mean()
    calibrated = plots.CalibrationDisplay.from_estimator(model, X[390:], y[390:])
    assert calibrated.counts.sum() == 390


def test_intervals_of_another_shape_are_refused():
    with pytest.raises(ValueError, match="intervals must be of shape"):
        plots.CoverageDisplay.from_predictions(np.ones(3), [np.ones((2, 2))], levels=[0.5])
    with pytest.raises(ValueError, match="levels must be as many as intervals, 1"):
        plots.CoverageDisplay.from_predictions(np.ones(3), [np.ones((3, 2))], levels=[0.5, 0.9])


# -- importances -------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 300])
def test_inputs_are_sorted_named_and_at_most_as_many_as_asked_for(n):
    names = [f"${'a long name ' * 9}^ {j}\n" for j in range(n)]
    sizes = np.random.default_rng(0).normal(size=n)
    display = plots.ImportanceDisplay(names, sizes, np.full(n, 1 / n)).plot(max_features=15)
    widths = [bar.get_width() for bar in display.bars_]
    np.testing.assert_array_equal(widths, np.sort(sizes)[::-1][:15])
    display.figure_.canvas.draw()  # no name is taken for mathematics
    labels = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert all(len(label) <= 28 and "\n" not in label for label in labels)
    assert len(display.marks_.get_offsets()) == min(n, 15)
    assert bool(display.ax_.texts) == (n > 15)


def test_importances_of_a_model_go_before_its_shares(regressor, rows):
    display = plots.ImportanceDisplay.from_estimator(regressor)
    np.testing.assert_array_equal(display.shares, regressor.input_shares_)
    told = getattr(regressor, "feature_importances_", None)
    assert (display.importances is None) == (told is None)
    shuffled = plots.ImportanceDisplay.from_estimator(regressor, *rows, random_state=0)
    assert shuffled.order[0] == 1
    assert shuffled.importances[1] > 10 * abs(shuffled.importances[0])


def test_importances_of_forests_are_not_told_as_losses(rows):
    from sklearn.ensemble import RandomForestRegressor

    forest = RandomForestRegressor(5, random_state=0).fit(*rows)
    display = plots.ImportanceDisplay.from_estimator(forest)
    assert display.ax_.get_xlabel() == "importance"


def test_zeros_of_both_axes_stand_one_above_the_other():
    display = plots.ImportanceDisplay(["a", "b"], [0.3, -0.1], [0.4, 0.6]).plot()
    below, above = display.ax_, display.marks_.axes
    places = [axes.transData.transform((0, 0))[0] for axes in (below, above)]
    np.testing.assert_allclose(*places)


# -- searches ----------------------------------------------------------------------------------


def test_groups_of_a_search_are_shown_the_chosen_one_and_then_the_best_first(regressor):
    display = plots.SearchDisplay.from_estimator(regressor, max_groups=3)
    losses = [min(stages.values())[0] for stages in display.groups.values()]
    assert losses[1:] == sorted(losses[1:])
    assert [any(c for _, c in s.values()) for s in display.groups.values()].index(True) == 0
    assert len(display.ax_.get_yticklabels()) == 3
    assert f"{len(losses) - 3} more were worse" in display.ax_.get_xlabel()


def test_a_search_that_tried_nothing_can_be_drawn():
    results = {"loss": np.array([]), "stage": np.array([], dtype=str)}
    display = plots.SearchDisplay(results).plot()
    display.figure_.canvas.draw()
    assert not display.groups


# -- maps --------------------------------------------------------------------------------------


def test_errors_of_a_map_are_those_of_the_diagnostics(rows):
    X = rows[0][:80]
    map_ = maps.RandomFourier(gamma=0.5, random_state=0)
    display = plots.KernelErrorDisplay.from_estimator(
        map_, X, n_components=(8, 64), norm="frobenius"
    )
    for number, error in zip((8, 64), display.errors, strict=True):
        fitted = maps.RandomFourier(gamma=0.5, n_components=number, random_state=0).fit(X)
        expected = kernel_error((fitted.kernel_, X), fitted).frobenius
        np.testing.assert_allclose(error, expected)
    more = plots.KernelErrorDisplay.from_estimator(map_, X, n_components=(8, 64), ax=display.ax_)
    assert display.slope_ is not None
    assert more.slope_ is None


# -- leaves ------------------------------------------------------------------------------------


def test_a_grid_is_divided_as_rows_are():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(400, 2)) * [1, 50], columns=["width", "$height^"])
    how = {"leaf_size": 80, "n_trees": 3, "overlap": 0.1, "random_state": 0}
    model = LocalKernelRegressor(**how).fit(X, X["width"])
    map_, last = model.feature_map_, 0
    for tree in range(3):
        display = plots.PartitionDisplay.from_estimator(model, tree=tree, resolution=25)
        first, last = last, map_.partition_.first_trees(tree + 1).n_leaves
        left, right, low, high = display.extent
        across, up = np.linspace(left, right, 25), np.linspace(low, high, 25)
        grid = np.column_stack([np.tile(across, 25), np.repeat(up, 25)])
        shares = np.zeros((25 * 25, last))
        for route in map_.partition_.routes(model.scaler_.transform(grid)):
            if first <= route.leaf < last:
                shares[route.rows, route.leaf] = 3 * route.shares
        np.testing.assert_allclose(display.shares.ravel(), shares.max(axis=1), atol=1e-4)
        same = display.leaves.ravel() == shares.argmax(axis=1) - first
        assert same.mean() > 0.99  # but for points on a cut
        assert (display.shares < 1).any()
    display.figure_.canvas.draw()
    assert display.ax_.get_ylabel() == "$height^"


def test_two_inputs_of_many_by_name_and_errors_in_a_sentence(rows):
    X, y = rows
    frame = pd.DataFrame(X, columns=list("abc"))
    model = LocalKernelRegressor(leaf_size=60, random_state=0, scale=False).fit(frame, y)
    display = plots.PartitionDisplay.from_estimator(model, features=("c", 0), resolution=10)
    assert display.names == ("c", "a")
    for features in [("a", "z"), ("a", "a"), (0, 3), (0,)]:
        with pytest.raises(ValueError, match="features must be two different inputs of the 3"):
            plots.PartitionDisplay.from_estimator(model, features=features)
    with pytest.raises(ValueError, match="tree must be from 0 to 3; got 4"):
        plots.PartitionDisplay.from_estimator(model, tree=4)


# -- displays of scikit-learn ------------------------------------------------------------------


def test_displays_of_scikit_learn_take_automatic_models(rows):
    from sklearn.inspection import DecisionBoundaryDisplay, PartialDependenceDisplay
    from sklearn.model_selection import LearningCurveDisplay

    X, y = rows
    frame = pd.DataFrame({"a": X[:, 1], "b": np.where(X[:, 0] > 0, "red", "blue")})
    model = AutoKernelRegressor(random_state=0).fit(frame, y)
    partial = PartialDependenceDisplay.from_estimator(
        model, frame[:50], ["a", "b"], categorical_features=["b"], grid_resolution=5
    )
    assert partial.figure_.axes
    curve = LearningCurveDisplay.from_estimator(
        AutoKernelRegressor(random_state=0), frame, y, cv=2, train_sizes=[0.4, 1.0]
    )
    assert len(curve.train_sizes) == 2
    classes = np.array(["low", "middle", "high"])[np.digitize(y, [-0.5, 0.5])]
    classifier = AutoKernelClassifier(random_state=0).fit(X[:, :2], classes)
    boundary = DecisionBoundaryDisplay.from_estimator(
        classifier, X[:, :2], response_method="predict", grid_resolution=8
    )
    assert boundary.surface_ is not None
