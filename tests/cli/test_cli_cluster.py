"""``mercer fit`` of folders over the workers of a Dask cluster."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from mercer import LocalKernelRegressor, persistence, solvers
from mercer.auto.tuning import TUNING
from mercer.cli.app import app
from mercer.cli.cluster import Counts, Progress, Watched
from mercer.distributed import Here, Run, Shard, ShardState, gathered
from mercer.solvers import BlockCoordinateDescent

pytest.importorskip("distributed")
pyarrow = pytest.importorskip("pyarrow")
from pyarrow import parquet  # noqa: E402

from _clusters import cluster, limited  # noqa: E402


@pytest.fixture(scope="module")
def address():
    with cluster(2) as client:
        yield client.scheduler.address


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Two files of 300 rows; some lack the price."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "houses").mkdir()
    rng = np.random.default_rng(100)
    for name in ("a", "b"):
        X = rng.uniform(-2, 2, size=(300, 2))
        price = np.sin(2 * X[:, 0]) * X[:, 1]
        price[7] = np.nan
        columns = {"rooms": X[:, 0], "age": X[:, 1], "w": np.ones(300), "price": price}
        columns["dear"] = np.where(price > 0, "yes", "no")
        parquet.write_table(pyarrow.table(columns), tmp_path / "houses" / f"{name}.parquet")
    return tmp_path


def mercer(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def fit(*arguments, target="price"):
    return mercer("fit", "houses", "--target", target, "--out", "m.skops", *arguments)


@limited(120)
def test_a_folder_is_fitted_on_a_scheduler_and_predicted_as_any(folder, address):
    done = fit("--scheduler", address, "--drop", "dear,w", "--json")
    assert done.exit_code == 0, done.output
    summary = json.loads(done.stdout)
    assert (summary["n"], summary["d"], summary["n_left_out"]) == (598, 2, 2)
    assert summary["task"] == "regression"
    assert summary["workers"] == 2
    assert summary["bytes_moved"] > 0
    assert summary["score"]["r2"] > 0.95
    saved = persistence.load_saved("m.skops")
    assert saved.feature_names == ["rooms", "age"]
    assert saved.target == "price"
    done = mercer("predict", "m.skops", "houses/a.parquet", "--out", "p.csv")
    assert done.exit_code == 0, done.output
    assert "in 299 of 300 rows" in " ".join(done.stdout.split())


@limited(120)
def test_classes_are_told_from_numbers_and_columns_have_roles(folder, address):
    done = fit("--scheduler", address, "--features", "rooms,age", "--weights", "w", target="dear")
    assert done.exit_code == 0, done.output
    assert "task: classification, the target holds labels" in done.stderr
    assert "moved, 2 workers" in done.stderr
    assert set(persistence.load("m.skops").classes_) == {"no", "yes"}


@limited(120)
def test_processes_of_this_machine_are_started_and_ended(folder):
    done = fit("--workers", 1, "--features", "age,rooms")
    assert done.exit_code == 0, done.output
    assert "wrote m.skops" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--workers", 2, "--scheduler", "tcp://a:1"), "must be left out beside"),
        (("--workers", 0), "must be greater than or equal to 1; got '0'"),
        (("--workers", 2, "--sparse"), "--sparse must be left out beside --workers"),
        (("--workers", 2, "--groups", "w"), "--groups must be left out beside --workers"),
        (("--workers", 2, "--time", "age"), "--time must be left out beside --workers"),
        (("--workers", 2, "--report", "r.html"), "--report must be left out beside"),
        (("--workers", 2, "--target", "prize"), "has no column 'prize'; did you mean 'price'?"),
        (("--workers", 2, "--drop", "price"), "--drop and --target must not both name 'price'"),
        (("--workers", 2, "--map", "fourier"), "holds more than numbers"),
        ((), "houses is a folder, which mercer fit reads with --workers"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_sentence(arguments, message, folder):
    done = fit(*arguments)
    assert done.exit_code in (1, 2)
    assert message in " ".join(done.stderr.split())
    assert not (folder / "m.skops").exists()


def test_data_are_parquet_files(folder):
    (folder / "t.csv").write_text("a,b\n1,2\n")
    done = mercer("fit", "t.csv", "--target", "b", "--out", "m.skops", "--workers", 2)
    assert "--workers needs a folder of Parquet files; t.csv is no such file." in done.stderr
    done = mercer("fit", "houzes", "--target", "b", "--out", "m.skops", "--workers", 2)
    assert "there is no file or folder houzes." in done.stderr
    done = mercer("fit", "houses", "--out", "m.skops", "--workers", 2)
    assert "name the column with --target, one of rooms, age, w, price, dear" in done.stderr


def test_without_dask_it_says_how_to_install_it(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    done = fit("--workers", 2)
    assert done.exit_code == 1
    assert "pip install 'mercer[dask]'" in " ".join(done.stderr.split())


@limited(60)
def test_a_scheduler_that_is_not_there_is_named(folder, monkeypatch):
    monkeypatch.setattr("mercer.dask.clusters._SECONDS", 0.5)
    done = fit("--scheduler", "tcp://127.0.0.1:1")
    assert done.exit_code == 1
    assert done.stderr.strip().endswith(
        "mercer: Dask's scheduler cannot be reached at tcp://127.0.0.1:1."
    )


class Sum(ShardState):
    """X w of the rows of a shard."""

    def derived(self, truth):
        return self.shard.X @ truth

    def total(self, state):
        return state.sum(axis=0, keepdims=True)


def test_what_moves_is_counted():
    engine = Watched(Here([Shard(np.ones((5, 2))), Shard(np.ones((3, 2)))], n_workers=2))
    run = Run(engine, Sum, None)
    w = np.ones((2, 1))
    assert run.total("total", version=0, truth=lambda i: w) == 16
    assert engine.counts == Counts(requests=1, bytes_moved=8, missed=0)
    engine.memories[1].forget()
    assert run.total("total", version=0, truth=lambda i: w) == 16
    assert vars(engine.counts) == {"requests": 3, "bytes_moved": 24, "missed": 1}
    assert engine.changed(lambda memory, number, shard: shard).n_shards == 2


def test_people_are_told_how_far_a_fit_is(monkeypatch):
    lines = []
    told = Progress(Here([Shard(np.ones((5, 2)))], n_workers=3), lines.append, verbose=False)
    monkeypatch.setattr("mercer.cli.cluster._OFTEN", 0.0)
    gathered(told.engine, len)
    assert lines.pop() == "request 1, 0 s, 0 B moved, 3 workers"
    told.counts.missed, told.counts.bytes_moved = 2, 3 * 1024**2
    assert not told(SimpleNamespace(n_blocks=4, optimality=0.25))
    end = "optimality 0.25, 8 s, 3.0 MB moved, 3 workers, 2 shards made again"
    assert told.in_words(8.0) == f"block 4, 2 s each, {end}"
    told(SimpleNamespace(optimality=0.25))
    assert told.in_words(8.0) == f"iteration 2, 4 s each, {end}"
    told(SimpleNamespace(n_leaves=9, n_solved=7))
    assert told.in_words(8.0).startswith("7 of 9 leaves, 8 s")
    assert len(lines) == 3


BLOCKS = (
    "--features", "rooms,age", "--map", "fourier", "--n-components", 64, "--gamma", 1,
    "--alpha", 0.1, "--solver", "block",
)  # fmt: skip


@dataclass
class SmallBlocks(BlockCoordinateDescent):
    """With a checkpoint after every one."""

    block_size: int = 16
    checkpoint_every: int = 1


@limited(180)
def test_a_fit_goes_on_from_its_checkpoint_on_another_number_of_workers(
    folder, address, monkeypatch
):
    monkeypatch.setattr(solvers, "BlockCoordinateDescent", SmallBlocks)
    done = fit("--scheduler", address, *BLOCKS, "--checkpoint", "kept")
    assert done.exit_code == 0, done.output
    whole = persistence.load("m.skops")
    (folder / "m.skops").unlink()
    assert not any((folder / "kept").iterdir())
    calls = []

    def dies(self, state, plain=Progress.__call__):
        calls.append(state)
        if len(calls) == 2:
            raise RuntimeError("the client dies")
        return plain(self, state)

    with monkeypatch.context() as patch:
        patch.setattr(Progress, "__call__", dies)
        assert fit("--scheduler", address, *BLOCKS, "--checkpoint", "kept").exit_code == 1
    assert not (folder / "m.skops").exists()
    assert any((folder / "kept").iterdir())
    again = []
    with monkeypatch.context() as patch:
        patch.setattr(Progress, "__call__", lambda self, state: again.append(state))
        done = fit("--workers", 1, *BLOCKS, "--checkpoint", "kept")
    assert done.exit_code == 0, done.output
    model = persistence.load("m.skops")
    np.testing.assert_allclose(model.map_coef_, whole.map_coef_, rtol=1e-6, atol=1e-9)
    assert model.solver == "block"
    assert len(again) > 0


@limited(120)
def test_an_interrupt_leaves_the_model_so_far(folder, address, monkeypatch):
    calls = []

    def interrupts(self, state):
        calls.append(state)
        if len(calls) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(Progress, "__call__", interrupts)
    done = fit("--scheduler", address, *BLOCKS[:-2], "--solver", "cg")
    assert done.exit_code == 130
    assert "wrote m.skops, the model as far as the fit was when it was interrupted" in " ".join(
        done.stderr.split()
    )
    model = persistence.load("m.skops")
    assert not model.converged_
    assert np.isfinite(model.predict(np.zeros((2, 2)))).all()


def test_a_checkpoint_needs_block_descent(folder):
    done = fit("--workers", 2, "--checkpoint", "kept")
    assert "--checkpoint must stand beside --solver block; got none." in done.stderr


@limited(120)
def test_leaves_over_a_cluster_are_told_and_scored(folder, address, monkeypatch):
    monkeypatch.setattr(TUNING, "exact_rows", 150)
    done = fit("--scheduler", address, "--drop", "dear,w", "--time-budget", "5")
    assert done.exit_code == 0, done.output
    assert isinstance(persistence.load("m.skops").kernel_machine_, LocalKernelRegressor)
    assert " leaves in " in done.output
    assert "r2" in done.stdout
