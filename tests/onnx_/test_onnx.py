"""Exports predict what models predict."""

import doctest
import sys

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler

from mercer import (
    AutoKernelClassifier,
    AutoKernelRegressor,
    DoublySGDRegressor,
    DualKernelSVC,
    GradientScaler,
    KernelClassifier,
    KernelRegressor,
    LeftOutScaler,
    LocalKernelClassifier,
    LocalKernelRegressor,
    SparseKernelClassifier,
    SparseKernelRegressor,
    TablePreparer,
    kernels,
    losses,
    maps,
)
from mercer.auto import LogTargetRegressor, MeanClassifier, MeanRegressor
from mercer.auto.tuning import TUNING
from mercer.onnx import export, feed, graph, register, to_onnx

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

RNG = np.random.default_rng(100)
X = (RNG.normal(size=(520, 4)) * [1, 2, 1, 10] + [0, 5, 0, 100]).astype(np.float32)
NEW = (RNG.normal(size=(60, 4)) * [1, 2, 1, 12] + [0, 5, 0, 100]).astype(np.float32)
Y = np.sin(X[:, 0]) + 0.3 * X[:, 1]
LABELS = np.array(["low", "mid", "top"])[np.digitize(Y, [1, 2])]


def run(model, rows, sample=None, target_opset=None):
    """Outputs of the export for rows, by name."""
    saved = to_onnx(model, sample, target_opset=target_opset)
    onnx.checker.check_model(saved)
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, 1
    session = onnxruntime.InferenceSession(saved.SerializeToString(), options)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, feed(saved, rows)), strict=True))


def assert_close(got, wanted, tolerance=1e-5):
    wanted = np.asarray(wanted, dtype=np.float64)
    wanted = wanted.reshape(len(wanted), -1)
    assert got.shape == wanted.shape
    assert np.abs(got - wanted).max() <= tolerance * np.abs(wanted).max()


def assert_exported(model, rows=NEW, sample=None, tolerance=1e-5):
    made = run(model, rows, sample)
    if "label" not in made:
        wanted = model.predict(rows) if hasattr(model, "predict") else model.transform(rows)
        assert_close(made["variable"], wanted, tolerance)
        return made
    np.testing.assert_array_equal(made["label"], model.predict(rows))
    if "probabilities" in made:
        assert_close(made["probabilities"], model.predict_proba(rows), tolerance)
    else:
        assert not hasattr(model, "predict_proba")
        assert_close(made["scores"], model.decision_function(rows), tolerance)
    return made


# Kernels and maps.

KERNELS = [
    kernels.Gaussian(),
    kernels.Laplacian(gamma=(0.1, 0.2, 0.3, 0.4)),
    kernels.Exponential(),
    kernels.Cauchy(),
    kernels.Cauchy(isotropic=True),
    kernels.Matern(nu=0.5),
    kernels.Matern(nu=1.5),
    kernels.Matern(nu=2.5),
    kernels.RationalQuadratic(exponent=2.0),
    kernels.Gaussian() + 0.5 * kernels.Laplacian(),
    kernels.Gaussian() * kernels.Linear(),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_exact_machines_of_every_kernel_are_exported(kernel):
    assert_exported(KernelRegressor(maps.ExactKernel(kernel)).fit(X, Y))


MAPS = [
    maps.RandomFourier(random_state=0),
    maps.RandomFourier(sampling="orthogonal", form="pair", random_state=0),
    maps.RandomFourier("laplacian", sampling="qmc", n_components=2100, random_state=0),
    maps.Fastfood(random_state=0),
    maps.Nystroem(n_components=60, random_state=0),
    maps.Nystroem(n_components=20, whiten=False, random_state=0),
    maps.SubspaceEmbedding(n_components=50, random_state=0),
    maps.IdentityMap(),
    maps.RandomBinning(n_components=40, random_state=0),
    maps.RandomBinning(n_components=40, bins=99, random_state=0),
    maps.RandomBinning(2.0 * kernels.Laplacian(), n_components=600, random_state=0),
]


@pytest.mark.parametrize("map_", MAPS, ids=lambda map_: " ".join(repr(map_).split()))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_models_of_every_map_are_exported(map_, dtype):
    targets = Y if dtype == "float32" else np.column_stack([Y, X[:, 2]])
    model = KernelRegressor(map_).fit(X.astype(dtype), targets)
    assert run(model, NEW, NEW)["variable"].dtype == np.float32
    assert_exported(model)


def test_kernels_of_many_rows_are_summed_in_chunks():
    for kernel in ("gaussian", "laplacian"):
        saved = to_onnx(KernelRegressor("exact", kernel=kernel).fit(X, Y))
        assert "Scan" in {node.op_type for node in saved.graph.node}
        shapes = {tuple(array.dims) for array in saved.graph.initializer}
        assert (3, 4, 256) in shapes  # chunks of 520 rows of 4 inputs


def test_rows_of_float64_are_predicted_in_float64():
    rows = X.astype(np.float64)
    for model in (KernelRegressor("exact", kernel="laplacian"), LocalKernelRegressor(leaf_size=99)):
        model.fit(rows, Y)
        made = assert_exported(model, NEW.astype(np.float64), rows[:1], tolerance=1e-12)
        assert made["variable"].dtype == np.float64


def test_weights_that_cancel_are_summed_in_float64():
    model = KernelRegressor("exact", alpha=1e-7).fit(X, Y)
    wide = KernelRegressor("exact", alpha=1e-7).fit(X.astype(np.float64), Y)
    assert_close(run(model, NEW)["variable"], model.predict(NEW), 1e-6)
    assert_close(run(wide, NEW)["variable"], wide.predict(NEW.astype(np.float64)), 1e-6)


def test_boxes_that_no_training_row_is_in_have_no_weight():
    model = KernelRegressor("binning", gamma=1.0, random_state=0).fit(X, Y)
    far = NEW + 1000
    with pytest.warns(UserWarning, match="were not met at fit"):
        wanted = model.predict(far)
    assert_close(run(model, far)["variable"], wanted)
    assert np.ptp(wanted) == 0


def test_no_rows_and_one_row_are_predicted():
    for model in (KernelRegressor("exact", kernel="laplacian"), LocalKernelRegressor(leaf_size=99)):
        model.fit(X, Y)
        assert run(model, NEW[:0])["variable"].shape == (0, 1)
        assert_exported(model, NEW[:1])


# Other machines.


@pytest.mark.parametrize("overlap", [0.0, 0.2])
@pytest.mark.parametrize("leaf_size", [90, 520])
def test_local_machines_are_exported(leaf_size, overlap):
    settings = {"leaf_size": leaf_size, "overlap": overlap, "random_state": 0}
    assert_exported(LocalKernelRegressor(n_trees=3, **settings).fit(X, Y))
    assert_exported(LocalKernelClassifier("gaussian", loss="logistic", **settings).fit(X, LABELS))


def test_leaves_of_more_rows_than_a_chunk_are_exported():
    assert_exported(LocalKernelRegressor(leaf_size=390, random_state=0).fit(X, Y))


@pytest.mark.parametrize(
    "model",
    [
        SparseKernelRegressor(random_state=0),
        SparseKernelRegressor("binning", n_new=16, max_rounds=2, random_state=0),
        DoublySGDRegressor(max_iter=3, random_state=0),
        LogTargetRegressor(KernelRegressor("fourier", random_state=0), [-0.2, 0.1, 0.3]),
        make_pipeline(StandardScaler(), "passthrough", KernelRegressor("exact", scale=False)),
    ],
    ids=lambda model: type(model).__name__,
)
def test_other_regressors_are_exported(model):
    assert_exported(model.fit(X, np.exp(Y)))


def test_targets_far_from_zero_keep_their_digits():
    model = KernelRegressor("exact").fit(X, Y.astype(np.float64) + 1.7e9)
    far = run(model, NEW)["variable"]
    assert far.dtype == np.float64
    assert_close(far - 1.7e9, model.predict(NEW) - 1.7e9, 1e-4)
    assert run(model.fit(X, Y), NEW)["variable"].dtype == np.float32  # as the targets


@pytest.mark.parametrize(
    "model",
    [
        KernelClassifier("exact"),
        KernelClassifier("fourier", loss="logistic", random_state=0),
        KernelClassifier("nystroem", loss="multinomial", n_components=50, random_state=0),
        SparseKernelClassifier("binning", n_new=16, max_rounds=2, random_state=0),
        DualKernelSVC(),
    ],
    ids=repr,
)
@pytest.mark.parametrize("labels", [LABELS, LABELS == "mid", 2.0 * np.digitize(Y, [1, 2])])
def test_classifiers_are_exported(model, labels):
    assert_exported(model.fit(X, labels))


def test_means_of_pipelines_are_exported():
    def pipelines(machine):
        steps = TablePreparer(), GradientScaler(random_state=0)
        kinds = [("laplacian", 2), ("gaussian", 1)]
        return [make_pipeline(*steps, machine(k, leaf_size=200, n_trees=t)) for k, t in kinds]

    assert_exported(MeanRegressor(pipelines(LocalKernelRegressor)).fit(X, Y))
    assert_exported(MeanClassifier(pipelines(LocalKernelClassifier)).fit(X, LABELS))


@pytest.mark.skipif("poisson" not in losses.LOSSES, reason="there is no loss with a log link")
def test_means_of_counts_are_exported():
    model = KernelRegressor("fourier", loss="poisson", random_state=0)
    assert_exported(model.fit(X, np.round(np.exp(Y))))


@pytest.mark.parametrize(
    "step",
    [
        maps.RandomFourier(n_components=30, random_state=0),
        maps.Nystroem(n_components=30, random_state=0),
        maps.SubspaceEmbedding(n_components=30, random_state=0),
        GradientScaler(random_state=0),
        GradientScaler(full=True, random_state=0),
        LeftOutScaler(random_state=0),
        TablePreparer("quantile"),
    ],
    ids=lambda step: type(step).__name__,
)
def test_transformers_are_exported(step):
    assert_exported(step.fit(X, Y))


# Tables.


def table(seed, n=300):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(seed)
    seconds = pandas.to_timedelta(rng.integers(0, 2**31, n), unit="s")
    return pandas.DataFrame(
        {
            "size": rng.normal(size=n) * 100 + 3,
            "gap": np.where(rng.random(n) < 0.1, np.nan, rng.gamma(1.0, size=n)),
            "city": rng.choice(["Rome", "Oslo", "Bern", None], n),
            "code": rng.choice([f"c{i}" for i in range(60)], n),
            "flag": rng.random(n) < 0.3,
            "day": pandas.Timestamp("1899-11-03") + 2 * seconds,
            "rooms": rng.integers(0, 5, n),
            "class": pandas.Categorical(rng.choice([1, 2], n)),
            "span": pandas.to_timedelta(rng.integers(0, 10**5, n), unit="s"),
        }
    )


@pytest.fixture(scope="module")
def tables():
    """Rows to fit, their targets, and new rows with what a fit did not meet."""
    fitted, new = table(100), table(101)
    fitted.loc[3, "day"] = None
    new.loc[5, "code"], new.loc[6, "code"], new.loc[7, "city"] = "never", None, "Paris"
    new.loc[8, "day"], new.loc[9, "size"], new.loc[10, "size"] = None, 1e9, np.nan
    target = fitted["size"] / 100 + fitted["code"].str[1:].astype(float) / 30 + fitted["flag"]
    return fitted, target.to_numpy(), new


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"numbers": "standard", "dtype": "float32"},
        {"numbers": "quantile"},
        {"max_integers": 10, "max_labels": 100, "indicators": False},
        {"identities": True},
        {"without": ("city",)},
    ],
    ids=str,
)
def test_raw_tables_are_prepared_as_before(settings, tables):
    fitted, target, new = tables
    for y in (target, None):
        preparer = TablePreparer(**settings, random_state=0).fit(fitted, y)
        wanted = preparer.transform(new)
        assert_close(run(preparer, new, fitted[:3])["variable"], wanted, 1e-11)
        assert_close(run(preparer, new)["variable"], wanted, 1e-6)  # of numbers in float32


@pytest.mark.parametrize("known", [["a", "b"], ["a", None], ["a", "b", "c"], ["a", "b", None]])
def test_unknown_labels_are_those_of_the_preparer(known):
    fitted = np.array([known, known], dtype=object).reshape(-1, 1)
    new = np.array([["a"], ["z"], [None], ["b"]], dtype=object)
    for y in (np.arange(len(fitted)) / 3, None):
        preparer = TablePreparer().fit(fitted, y)
        assert_close(run(preparer, new)["variable"], preparer.transform(new), 1e-12)


def test_days_of_four_centuries_are_in_their_place_of_the_year():
    day = np.timedelta64(36 * 3600 + 1, "s")
    dates = np.datetime64("1700-01-01T00:00:00", "us") + day * np.arange(100_000)
    rows = np.column_stack([dates, dates[::-1]])
    preparer = TablePreparer().fit(rows[::50])
    wanted = preparer.transform(rows)
    np.testing.assert_allclose(run(preparer, rows)["variable"], wanted, atol=1e-6)
    gap = np.where(np.arange(len(rows)) % 2, np.datetime64("NaT"), dates)[:9, None]
    preparer = TablePreparer().fit(gap)
    np.testing.assert_allclose(run(preparer, gap)["variable"], preparer.transform(gap), atol=1e-6)


def test_frames_of_numbers_have_an_input_for_every_column_of_a_sample():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abcd")).assign(a=np.arange(len(X)))
    model = KernelRegressor("nystroem", n_components=20, random_state=0).fit(frame, Y)
    saved = to_onnx(model, frame[:1])
    types = [one.type.tensor_type.elem_type for one in saved.graph.input]
    assert [one.name for one in saved.graph.input] == list("abcd")
    assert types == [onnx.TensorProto.INT64] + 3 * [onnx.TensorProto.FLOAT]
    assert_exported(model, frame, frame[:1])
    assert_exported(model, frame)  # as one matrix


def test_arrays_of_objects_have_an_input_for_every_column():
    rows = np.empty((200, 2), dtype=object)
    rows[:, 0], rows[:, 1] = RNG.normal(size=200), RNG.choice(["a", "b", "c"], 200)
    rows[3, 0] = rows[4, 1] = None
    preparer = TablePreparer().fit(rows)
    saved = to_onnx(preparer, rows[:5])
    assert [one.name for one in saved.graph.input] == ["x0", "x1"]
    assert_exported(preparer, rows, rows[:5], tolerance=1e-12)


def test_texts_of_booleans_are_read():
    cells = 5 * ["yes", "No", " yes", None, "NO ", "n"]
    rows = np.array([[cell, 0.1 * i] for i, cell in enumerate(cells)], dtype=object)
    preparer = TablePreparer().fit(rows)
    assert preparer.formats_ == ["true or false", ""]
    for sample in (None, rows[:3], rows[3:4]):
        assert_exported(preparer, rows, sample)
    assert_exported(preparer, np.array([[True, 0.2], [False, 0.1]], dtype=object))


def test_texts_that_onnx_cannot_read_are_refused_by_name(tables):
    fitted, target = tables[0][:80], tables[1][:80]
    priced = fitted.assign(price=[f"${n}" for n in range(len(fitted))])[["size", "price"]]
    preparer = TablePreparer().fit(priced, target)
    for sample in (None, priced[:2]):
        with pytest.raises(ValueError, match=r"column 'price' must be given as numbers.*\(\$\)"):
            to_onnx(preparer, sample)
    numbers = priced.assign(price=np.arange(len(priced)))
    assert_exported(preparer, numbers, numbers[:2])
    words = RNG.choice(["good", "bad", "ugly", "big"], (len(fitted), 6))
    prose = fitted[["size"]].assign(note=[" ".join(row) for row in words])
    preparer = TablePreparer().fit(prose, (words == "good").sum(axis=1) / 2.5)
    with pytest.raises(ValueError, match="column 'note' must hold numbers, labels or dates"):
        to_onnx(preparer)


def test_columns_that_are_left_out_are_no_hindrance(tables):
    fitted, target, new = tables
    with pytest.warns(UserWarning, match="columns are left out: 'id'"):
        preparer = TablePreparer().fit(
            fitted[["size"]].assign(id=[f"{n:x} {n}" for n in range(len(fitted))]), target
        )
    assert_exported(preparer, new[["size"]].assign(id="other"))


def test_automatic_models_are_exported_whole(tables):
    fitted, target, new = tables
    model = AutoKernelRegressor(random_state=100).fit(fitted, target)
    assert_exported(model, new, fitted[:2])
    saved = to_onnx(model)
    assert [one.name for one in saved.graph.input] == fitted.columns.tolist()
    model = AutoKernelClassifier(random_state=100).fit(fitted, target > 1)
    assert_exported(model, new, tolerance=5e-5)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_log_odds_of_classes_become_their_probabilities(n_classes, monkeypatch):
    monkeypatch.setattr(TUNING, "log_odds_gain", 2.0)
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 3))
    logs = rng.gumbel(size=(400, n_classes)) + 2 * rows[:, :n_classes]
    model = AutoKernelClassifier(random_state=100).fit(rows, logs.argmax(axis=1))
    assert model.best_settings_["transform"] == "log-odds"
    assert_exported(model, rng.normal(size=(50, 3)), tolerance=5e-5)


def test_labels_follow_the_decision_threshold():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(500, 3))
    target = rng.uniform(size=500) < 0.5 / (1 + np.exp(3 - 3 * rows[:, 0]))
    model = AutoKernelClassifier(scoring="balanced_accuracy", random_state=0).fit(rows, target)
    assert model.decision_threshold_ < 0.5
    made = assert_exported(model, rng.normal(size=(60, 3)), tolerance=5e-5)
    assert made["label"].any()


def test_predictions_of_targets_of_at_least_0_are_at_least_0_in_exports():
    target = np.maximum(Y[:200] - 1, 0)
    model = AutoKernelRegressor(random_state=100).fit(X[:200], target)
    made = assert_exported(model, NEW)["variable"]
    assert made.min() == 0 > model.best_estimator_.predict(NEW).min()


def test_models_of_sparse_rows_take_dense_ones():
    rows = sparse.csr_array(np.maximum(X, 0))
    model = make_pipeline(TablePreparer(), KernelRegressor("exact")).fit(rows, Y)
    assert_exported(model, np.maximum(NEW, 0))


# Pipelines with steps of other packages.


def test_pipelines_with_other_steps_are_exported_by_skl2onnx():
    skl2onnx = pytest.importorskip("skl2onnx")
    assert_exported(make_pipeline(MinMaxScaler(), KernelRegressor("exact")).fit(X, Y))
    assert_exported(make_pipeline(maps.RandomFourier(n_components=30), Ridge()).fit(X, Y))
    for labels in (LABELS, LABELS == "mid"):
        model = make_pipeline(MinMaxScaler(), KernelClassifier("nystroem", n_components=20))
        assert_exported(model.fit(X, labels))
    assert_exported(make_pipeline(MinMaxScaler(), KernelRegressor("binning")).fit(X, Y))
    machine = KernelRegressor("nystroem", n_components=20, random_state=0)
    search = GridSearchCV(machine, {"alpha": [1e-3, 1e-2]}, cv=2)
    assert_exported(search.fit(X, Y))
    grids = KernelRegressor("binning", n_components=300)  # in the body of a loop
    assert_exported(make_pipeline(RobustScaler(), grids).fit(X, Y))
    register()
    model = make_pipeline(MinMaxScaler(), KernelClassifier("exact")).fit(X, LABELS == "mid")
    saved = skl2onnx.to_onnx(model, X[:1], target_opset=18)
    session = onnxruntime.InferenceSession(saved.SerializeToString())
    label, rows = session.run(None, {"X": NEW})
    np.testing.assert_array_equal(label, model.predict(NEW))
    scores = [row[1] for row in rows]
    np.testing.assert_allclose(scores, model.predict_proba(NEW)[:, 1], rtol=1e-4, atol=1e-5)


def test_raw_tables_before_steps_of_other_packages_are_exported(tables):
    pytest.importorskip("skl2onnx")
    fitted, target, new = tables
    model = make_pipeline(TablePreparer(dtype="float32", random_state=0), Ridge())
    model.fit(fitted, target)
    assert_exported(model, new, fitted[:2])
    assert_exported(model, new)


# What is refused.


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (KernelRegressor("perceptron", random_state=0), "got a RandomPerceptron"),
        (DoublySGDRegressor("perceptron", max_iter=2, random_state=0), "got a RandomPerceptron"),
        (KernelRegressor("exact", kernel=lambda a, b: a @ b.T), "kernel must be one that ONNX"),
        (LogTargetRegressor(make_pipeline(MinMaxScaler(), KernelRegressor("binning")), [0.1]),
         "got a MinMaxScaler"),
        (maps.RandomBinning(random_state=0), "must be part of a model"),
    ],
)  # fmt: skip
def test_what_onnx_cannot_express_is_refused_in_one_sentence(model, message):
    with pytest.raises(ValueError, match=message):
        to_onnx(model.fit(X, Y))


def test_what_makes_no_sense_is_refused(monkeypatch):
    model = KernelRegressor("exact").fit(X, Y)
    with pytest.raises(ValueError, match="target_opset must be at least 18; got 12"):
        to_onnx(model, target_opset=12)
    with pytest.raises(ValueError, match="target_opset must be at most"):
        to_onnx(model, target_opset=10**6)
    with pytest.raises(NotFittedError):
        to_onnx(KernelRegressor("exact"))
    with pytest.raises(TypeError, match="model must be a fitted estimator; got 3"):
        to_onnx(3)
    with pytest.raises(ValueError, match="which takes texts"):
        to_onnx(KernelRegressor("ngrams").fit(["a b", "c"] * 5, range(10)))
    with monkeypatch.context() as patch:
        patch.setattr(graph, "_MOST_BYTES", 1000)
        with pytest.raises(ValueError, match="model must take less than 2 GB"):
            to_onnx(model)


def test_a_missing_package_is_named(monkeypatch):
    model = KernelRegressor("exact").fit(X, Y)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"needs onnx; pip install 'mercer\[onnx\]'"):
        to_onnx(model)


def test_newer_operators_are_exported():
    model = KernelRegressor("exact", kernel="laplacian").fit(X, Y)
    assert_close(run(model, NEW, target_opset=21)["variable"], model.predict(NEW))


def test_a_table_that_lacks_a_column_is_refused(tables):
    fitted, _, new = tables
    saved = to_onnx(TablePreparer().fit(fitted))
    with pytest.raises(ValueError, match="it lacks 'city'"):
        feed(saved, new.drop(columns="city"))


@pytest.mark.parametrize("function", [to_onnx, feed, register])
def test_the_examples_of_the_docstrings_run(function):
    text = function.__doc__.replace("  # doctest: +SKIP", "")
    example = doctest.DocTestParser().get_doctest(text, {}, function.__name__, export.__file__, 0)
    assert doctest.DocTestRunner().run(example).failed == 0
