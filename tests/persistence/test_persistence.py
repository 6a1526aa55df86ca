"""Model files: whole or not at all, the same predictions, and nothing of a stranger's is run."""

from __future__ import annotations

import copy
import errno
import os
import pickle
import zipfile

import numpy as np
import pytest
import skops.io
from scipy import sparse
from sklearn.linear_model import Ridge
from sklearn.preprocessing import FunctionTransformer

import mercer
from mercer import KernelClassifier, KernelRegressor, kernels, persistence

MAPS = ("binning", "fourier", "nystroem", "linear")


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return rng.normal(size=(120, 3))


@pytest.fixture
def model(rows):
    return KernelRegressor(n_components=16, random_state=0).fit(rows, rows[:, 0])


def settings(name):
    return {} if name == "linear" else {"n_components": 20}


@pytest.mark.parametrize("name", MAPS)
def test_loaded_regressor_predicts_what_the_saved_one_does(name, rows, tmp_path):
    y = np.column_stack([rows[:, 0] ** 2, rows[:, 1]])
    model = KernelRegressor(name, random_state=0, **settings(name)).fit(rows, y)
    persistence.save(model, tmp_path / "m.skops")
    again = persistence.load(tmp_path / "m.skops")
    np.testing.assert_array_equal(again.predict(rows), model.predict(rows))


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_loaded_classifier_predicts_what_the_saved_one_does(name, loss, rows, tmp_path):
    y = np.array(["no", "perhaps", "yes"])[(rows[:, 0] > 0).astype(int) + (rows[:, 1] > 0)]
    model = KernelClassifier(name, loss=loss, random_state=0, **settings(name)).fit(rows, y)
    persistence.save(model, tmp_path / "m.skops")
    again = persistence.load(tmp_path / "m.skops")
    np.testing.assert_array_equal(again.predict(rows), model.predict(rows))
    np.testing.assert_array_equal(again.decision_function(rows), model.decision_function(rows))
    if loss == "logistic":
        np.testing.assert_array_equal(again.predict_proba(rows), model.predict_proba(rows))


@pytest.mark.parametrize(
    "kernel", [kernels.Laplacian(gamma=0.5), kernels.Laplacian(gamma=np.array([0.5, 1.0, 2.0]))]
)
def test_kernel_objects_survive_a_file(kernel, rows, tmp_path):
    model = KernelRegressor(kernel=kernel, n_components=8, random_state=0).fit(rows, rows[:, 0])
    persistence.save(model, tmp_path / "m.skops")
    again = persistence.load(tmp_path / "m.skops")
    np.testing.assert_array_equal(again.predict(rows), model.predict(rows))


def test_what_stands_beside_the_model_is_kept(model, tmp_path):
    about = {"task": "regression", "target": "price", "feature_names": ["a", "b", "c"]}
    persistence.save(model, tmp_path / "m.skops", settings={"seed": 1}, **about)
    saved = persistence.load_saved(tmp_path / "m.skops")
    assert (saved.task, saved.target, saved.feature_names) == tuple(about.values())
    assert saved.settings == {"seed": 1}
    assert saved.mercer_version


def test_save_returns_the_size_of_the_file(model, tmp_path):
    size = persistence.save(model, tmp_path / "m.skops")
    assert size == (tmp_path / "m.skops").stat().st_size


# --- files of strangers ----------------------------------------------------------------------


class Trap:
    """Leaves a trace if anything unpickles it."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return (open, (self.trace, "w"))


def a_pickle(path, trace):
    path.write_bytes(pickle.dumps(Trap(str(trace))))


def a_text(path, trace):
    path.write_text("no model at all")


def an_empty_file(path, trace):
    path.write_bytes(b"")


def another_archive(path, trace):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("letter.txt", "hello")


def a_function(path, trace):
    path.write_bytes(persistence.dumps(FunctionTransformer(os.system)))


def a_foreign_type(path, trace):
    path.write_bytes(persistence.dumps({"path": np.random.default_rng, "trap": Foreign()}))


def another_model(path, trace):
    path.write_bytes(persistence.dumps(Ridge()))


def a_pickle_in_an_archive(path, trace):
    path.write_bytes(persistence.dumps(Ridge()))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("payload.npy", pickle.dumps(Trap(str(trace))))


class Foreign:
    pass


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (a_pickle, "not a model file"),
        (a_text, "not a model file"),
        (an_empty_file, "not a model file"),
        (another_archive, "not a model file"),
        (a_function, "does not trust"),
        (a_foreign_type, "does not trust"),
        (another_model, "holds a Ridge, not a model saved by mercer"),
        (a_pickle_in_an_archive, "other members than its manifest names"),
    ],
)
def test_file_of_a_stranger_is_refused_in_one_sentence(make, message, tmp_path):
    path, trace = tmp_path / "m.skops", tmp_path / "trace"
    make(path, trace)
    with pytest.raises(ValueError, match=message) as caught:
        persistence.load(path)
    assert "\n" not in str(caught.value)
    assert not trace.exists()


def test_object_array_in_a_model_file_is_never_unpickled(tmp_path):
    trace = tmp_path / "trace"
    content = persistence.dumps({"a": np.arange(3.0)})
    source, target = tmp_path / "a.zip", tmp_path / "m.skops"
    source.write_bytes(content)
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            if not name.endswith(".npy"):
                new.writestr(name, old.read(name))
                continue
            with new.open(name, "w") as file:
                np.save(file, np.array([Trap(str(trace))], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"damaged|not a model"):
        persistence.load(target)
    assert not trace.exists()


def test_cut_file_is_refused(model, tmp_path):
    path = tmp_path / "m.skops"
    persistence.save(model, path)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(ValueError, match="not a model file"):
        persistence.load(path)


def test_changed_byte_is_noticed(model, tmp_path):
    path = tmp_path / "m.skops"
    persistence.save(model, path)
    content = bytearray(path.read_bytes())
    content[300] ^= 255
    path.write_bytes(content)
    with pytest.raises(ValueError, match="damaged"):
        persistence.load(path)


@pytest.mark.parametrize("kind", [FileNotFoundError, IsADirectoryError])
def test_unreadable_path_is_named(kind, tmp_path):
    path = tmp_path if kind is IsADirectoryError else tmp_path / "none.skops"
    with pytest.raises(kind, match=str(path)):
        persistence.load(path)


def test_model_with_a_function_is_refused_when_saved(rows, tmp_path):
    kernel = kernels.Callable(lambda X, Y: X @ Y.T)
    model = KernelRegressor("nystroem", kernel=kernel, n_components=5, random_state=0)
    model.fit(rows, rows[:, 0])
    with pytest.raises(TypeError, match=r"^model must"):
        persistence.save(model, tmp_path / "m.skops")
    assert list(tmp_path.iterdir()) == []


# --- whole or not at all ---------------------------------------------------------------------


def full_disk(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def interrupt(*_):
    raise KeyboardInterrupt


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("failure", [full_disk, interrupt])
def test_failed_write_leaves_what_was_there(step, failure, model, tmp_path, monkeypatch):
    path = tmp_path / "m.skops"
    path.write_text("before")
    monkeypatch.setattr(os, step, failure)
    with pytest.raises((OSError, KeyboardInterrupt)) as caught:
        persistence.save(model, path)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]
    if failure is full_disk:
        assert str(caught.value) == f"cannot write {path}: No space left on device."


def test_failed_write_leaves_no_new_file(model, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        persistence.save(model, tmp_path / "m.skops")
    assert list(tmp_path.iterdir()) == []


def test_missing_folder_is_one_sentence(model, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"^cannot write .*: No such file or directory\.$"):
        persistence.save(model, tmp_path / "none" / "m.skops")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_unwritable_folder_is_one_sentence(model, tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError, match=r"^cannot write .*: Permission denied\.$"):
        persistence.save(model, tmp_path / "m.skops")


@pytest.mark.skipif(os.name != "posix", reason="needs a device file")
def test_device_is_not_replaced_by_a_file(model):
    with pytest.raises(OSError, match="not a plain file"):
        persistence.save(model, os.devnull)


def test_link_is_followed(model, tmp_path):
    real = tmp_path / "real.skops"
    link = tmp_path / "link.skops"
    real.write_text("before")
    link.symlink_to(real)
    persistence.save(model, link)
    assert link.is_symlink()
    assert persistence.load(real).predict(np.zeros((1, 3))).shape == (1,)


def test_missing_skops_is_one_sentence(model, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "skops", None)
    with pytest.raises(ImportError, match=r"pip install 'mercer\[skops\]'"):
        persistence.save(model, tmp_path / "m.skops")


def test_examples_run(check_examples):
    check_examples(persistence)


SPARSE_MODELS = {
    **{
        name: lambda X, y, name=name: mercer.KernelRegressor(name, random_state=0).fit(X, y)
        for name in ("binning", "fourier", "nystroem", "exact", "linear")
    },
    "classes": lambda X, y: mercer.KernelClassifier("exact").fit(X, np.arange(len(y)) % 3),
    "sparse": lambda X, y: mercer.SparseKernelRegressor(max_rounds=2, random_state=0).fit(X, y),
    "steps": lambda X, y: mercer.DoublySGDRegressor(max_iter=2, random_state=0).fit(X, y),
    "dual": lambda X, y: mercer.DualKernelSVC().fit(X, y > np.median(y)),
    "scaler": lambda X, y: mercer.GradientScaler(random_state=0).fit(X, y),
}


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", SPARSE_MODELS)
def test_models_of_sparse_rows_of_either_type_answer_and_are_saved(name, dtype, kind, tmp_path):
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(60, 5)) * (rng.random((60, 5)) < 0.5)
    X = kind(dense.astype(dtype))
    model = SPARSE_MODELS[name](X, dense.sum(axis=1))
    persistence.save(model, tmp_path / "model.skops")
    loaded = persistence.load(tmp_path / "model.skops")
    answers = [
        one.transform(X).toarray() if name == "scaler" else one.predict(X)
        for one in (model, loaded, copy.deepcopy(model))
    ]
    np.testing.assert_array_equal(answers[1], answers[0])
    np.testing.assert_array_equal(answers[2], answers[0])


def test_what_watches_fits_is_no_part_of_a_file(tmp_path):
    class Watcher:
        """Sees fits, and cannot be saved."""

        def setup(self, estimator, context):
            seen.append("setup")

        teardown = on_fit_task_begin = on_fit_task_end = setup

    seen = []
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = KernelRegressor("binning", random_state=0).set_callbacks(Watcher()).fit(X, X[:, 0])
    assert seen
    persistence.save(model, tmp_path / "m.skops")
    again = persistence.load(tmp_path / "m.skops")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert model._skl_callbacks  # the model itself keeps them


def parts_of(value, seen):
    """What an object is made of, written out; objects met twice by the order of first sight."""
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, repr(value.tolist())  # in which NaN equals NaN
    if isinstance(value, dict):
        return "dict", [(key, parts_of(item, seen)) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [parts_of(item, seen) for item in value]
    if not hasattr(value, "__getstate__") or isinstance(value, (str, int, float, type(None), type)):
        return type(value).__name__, repr(value)
    if id(value) in seen:
        return seen[id(value)]
    seen[id(value)] = len(seen)
    return type(value).__name__, parts_of(value.__getstate__(), seen)


@pytest.mark.parametrize("name", ["binning", "exact", "automatic", "labels"])
def test_files_of_mercers_own_parts_are_read_as_skops_reads_them(name, rows, tmp_path, monkeypatch):
    y = rows[:, 0]
    if name == "automatic":
        model = mercer.AutoKernelRegressor(time_budget=0.1, n_jobs=1, random_state=0).fit(rows, y)
    elif name == "labels":
        labels = np.array(["no", "yes"], dtype=object)[(y > 0).astype(int)]
        model = KernelClassifier(n_components=8, random_state=0).fit(rows, labels)
    else:
        model = KernelRegressor(name, random_state=0).fit(rows, y)
    path = tmp_path / "m.skops"
    persistence.save(model, path, target="y", settings={"rows": 120, "none": None, "pair": (1, 2)})
    theirs = skops.io.loads(path.read_bytes(), trusted=persistence.trusted_types())
    monkeypatch.setattr(persistence, "_skops", lambda: pytest.fail("skops was asked"))
    ours = persistence.load_saved(path)
    assert parts_of(ours, {}) == parts_of(theirs, {})
    np.testing.assert_array_equal(ours.model.predict(rows), model.predict(rows))
