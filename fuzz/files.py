"""Damaged data files, model files and checkpoints into everything that reads them."""

from __future__ import annotations

import contextlib
import functools
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from scipy import sparse

import mercer
from _reader_corpus import corpus
from fuzz import judge
from fuzz.damage import damaged
from mercer import datasets, maps, persistence, solvers

_CHECKPOINT = "block-descent.npz"


def attack(draw: Any, say: Any) -> None:
    """A damaged file is refused by its name, or read as what its bytes say."""
    files = _files()
    name = draw(st.sampled_from(sorted(files)))
    content, word = damaged(draw, name, files[name], [*files.values()])
    if draw(st.integers(0, 3)) == 0:
        content, again = damaged(draw, "file", content, [*files.values()])
        word += f", then {again}"
    say(f"{name}: {word}")
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        path = Path(folder, name)
        path.write_bytes(content)
        try:
            _read(draw, say, path)
        except (ValueError, OSError) as error:
            if path.name not in str(error):
                raise judge.Wrong(f"no file is named: {error}") from error
            if len(str(error).splitlines()) > 1:
                raise judge.Wrong(f"more than a sentence: {error}") from error
            raise


def _read(draw: Any, say: Any, path: Path) -> None:
    if path.suffix == ".skops":
        _sound_model(persistence.load(path))
    elif path.name == _CHECKPOINT:
        _goes_on(path.parent)
    elif path.suffix == ".parquet" and draw(st.booleans()):
        say("memory-mapped")
        sound_table(datasets.memory_mapped(path, folder=path.parent / "mapped"), raw=False)
    else:
        target = draw(st.sampled_from([None, None, "y", 0, -1]))
        raw = draw(st.booleans())
        say(f"target={target!r}, raw={raw}")
        sound_table(datasets.read(path, target, raw=raw), raw)


def sound_table(table: datasets.Table, raw: bool) -> None:
    """Rows and targets that go together and hold numbers, but for raw ones."""
    X, y = table.X, table.y
    if X.ndim != 2 or not all(X.shape) or (y is not None and len(y) != X.shape[0]):
        raise judge.Wrong(f"X of {X.shape} with y of {np.shape(y)}")
    if table.feature_names is not None and len(table.feature_names) != X.shape[1]:
        raise judge.Wrong(f"{len(table.feature_names)} names for {X.shape[1]} columns")
    if sparse.issparse(X):
        X.check_format()
    if not raw:
        judge.finite(X, "X")
    if y is not None:
        judge.finite(y, "y")


def _sound_model(model: Any) -> None:
    for method in ("predict", "decision_function"):
        if hasattr(model, method):
            try:
                judge.finite(getattr(model, method)(_data()[0]), method)
            except (ValueError, TypeError) as error:
                if not judge.refusal(error):
                    raise
                return  # another model, which takes other rows


def _data() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    return X, X[:, 0] + np.sin(3 * X[:, 1])


class _Interrupted(solvers.BlockCoordinateDescent):
    """The user interrupts it after a few blocks."""

    def _one_block(self, state: Any, place: int) -> None:
        if state.n_blocks == 4:
            raise KeyboardInterrupt
        super()._one_block(state, place)


def _machine(solver: Any) -> mercer.KernelRegressor:
    map_ = maps.RandomFourier(gamma=0.5, n_components=24, random_state=0)
    return mercer.KernelRegressor(map_, solver=solver, alpha=1e-3)


def _by_blocks(folder: Path, kind: Any = solvers.BlockCoordinateDescent) -> mercer.KernelRegressor:
    settings = {"block_size": 8, "checkpoint_every": 1, "tol": 1e-6, "max_iter": 400}
    return _machine(kind(checkpoint=folder, **settings))


def _goes_on(folder: Path) -> None:
    """A fit that finds a checkpoint ends where any would."""
    X, y = _data()
    model = _by_blocks(folder).fit(X, y)
    judge.finite(model.predict(X), "predict")
    judge.alike(model.map_coef_, _truth(), "coefficients from a checkpoint", 1e-2)


@functools.cache
def _truth() -> Any:
    return _machine("cholesky").fit(*_data()).map_coef_


@functools.cache
def _files() -> dict[str, bytes]:
    """Sound files by name: data, models and a checkpoint."""
    X, y = _data()
    with tempfile.TemporaryDirectory() as folder:
        found = {path.name: path.read_bytes() for path in corpus(Path(folder, "data"))}
        models = {
            "binning.skops": mercer.KernelRegressor(n_components=8, random_state=0),
            "sparse.skops": mercer.SparseKernelClassifier(max_rounds=2, random_state=0),
            "dual.skops": mercer.DualKernelSVC(),
        }
        for name, model in models.items():
            model.fit(X, y if name == "binning.skops" else y > 0)
            persistence.save(model, Path(folder, name))
            found[name] = Path(folder, name).read_bytes()
        found[_CHECKPOINT] = _checkpoint(Path(folder, "kept"))
    return found


def _checkpoint(folder: Path) -> bytes:
    """What a fit that was interrupted has left."""
    with contextlib.suppress(KeyboardInterrupt):
        _by_blocks(folder, _Interrupted).fit(*_data())
    return (folder / _CHECKPOINT).read_bytes()
