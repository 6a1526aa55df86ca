"""Places that take no files: a full disk, a folder that cannot be written or has gone."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from contextlib import contextmanager

import numpy as np
import pytest

from _faults import COMMANDS, halves, prepare, run
from mercer import KernelRegressor, datasets, maps, persistence, plots
from mercer.solvers import BlockCoordinateDescent

resource = pytest.importorskip("resource", reason="there are no limits of processes here")


def rows(n=400):
    X = np.random.default_rng(0).normal(size=(n, 3))
    return X, np.sin(2 * X[:, 0]) + X[:, 1]


@pytest.fixture(scope="module")
def model():
    return KernelRegressor(n_components=64, random_state=0).fit(*rows())


@pytest.fixture
def folder(tmp_path):
    prepare(tmp_path)
    (tmp_path / "place").mkdir()
    return tmp_path


def save_model(folder, model):
    persistence.save(model, folder / "place" / "m.skops")


def write_predictions(folder, model):
    text = "\n".join(map(str, model.predict(rows(4000)[0])))
    persistence.write_atomically(folder / "place" / "out.csv", text)


def map_table(folder, model):
    datasets.memory_mapped(folder / "waves.parquet", "y", folder=folder / "place" / "mapped")


def keep_checkpoints(folder, model):
    solver = BlockCoordinateDescent(
        block_size=20, checkpoint=folder / "place" / "kept", checkpoint_every=1
    )
    KernelRegressor(maps.ExactKernel(), solver=solver, alpha=1e-2).fit(*rows())


def draw_figure(folder, model):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4, 4))
    figure.subplots().imshow(np.random.default_rng(0).random((200, 200)))
    plots.save_figure(figure, folder / "place" / "figure.png")


def files_in(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


WRITERS = [save_model, write_predictions, map_table, keep_checkpoints, draw_figure]


@contextmanager
def files_of_at_most(size):
    """No file may grow beyond so many bytes: what a full disk does, for any user."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


@contextmanager
def mounted(place, *options):
    """A small file system at a folder, which takes the rights of an administrator."""
    command = ["mount", *options, str(place)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting takes the rights of an administrator")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def is_refused_in_a_sentence(write, folder, model):
    with pytest.raises(OSError, match=rf"^[^\n]*{re.escape(str(folder / 'place'))}[^\n]*$"):
        write(folder, model)


@pytest.mark.parametrize("write", WRITERS)
def test_file_that_may_not_grow_leaves_nothing(write, folder, model):
    with files_of_at_most(4096):
        is_refused_in_a_sentence(write, folder, model)
    assert files_in(folder / "place") == {}


@pytest.mark.parametrize("write", WRITERS)
def test_full_disk_leaves_nothing(write, folder, model):
    place = folder / "place"
    with mounted(place, "-t", "tmpfs", "-o", "size=8k", "tmpfs"):
        is_refused_in_a_sentence(write, folder, model)
        assert files_in(place) == {}


@pytest.mark.parametrize("write", WRITERS)
def test_read_only_disk_is_one_sentence(write, folder, model):
    with mounted(folder / "place", "-t", "tmpfs", "-o", "size=64k,ro", "tmpfs"):
        is_refused_in_a_sentence(write, folder, model)


@pytest.mark.parametrize("write", WRITERS)
def test_failed_write_leaves_what_was_there(write, folder, model):
    write(folder, model)
    before = files_in(folder / "place")
    if write is map_table:
        os.utime(folder / "waves.parquet")  # another state of the file
    with files_of_at_most(4096), pytest.raises(OSError, match="File too large"):
        write(folder, model)
    assert files_in(folder / "place") == before


def test_folder_that_goes_during_a_fit_is_one_sentence(tmp_path):
    folder = tmp_path / "kept"

    class Swept(BlockCoordinateDescent):
        def _one_block(self, state, place):
            if state.n_blocks == 3:
                for path in folder.iterdir():
                    path.unlink()
                folder.rmdir()
            super()._one_block(state, place)

    solver = Swept(block_size=50, checkpoint=folder, checkpoint_every=1)
    with pytest.raises(OSError, match=r"^[^\n]*kept[^\n]*$"):
        KernelRegressor(maps.ExactKernel(), solver=solver, alpha=1e-6).fit(*rows())


@pytest.mark.parametrize("state", ["same", "former"])
def test_killed_mapping_leaves_no_files_to_a_later_one(state, folder):
    place = folder / "place"
    datasets.memory_mapped(folder / "waves.parquet", "y", folder=place)
    [whole] = place.glob("X-*.npy")
    # As a process that was killed has left it.
    (place / f".{whole.name}.0123abcd.tmp").write_bytes(b"half")
    if state == "former":
        os.utime(folder / "waves.parquet", (1, 1))
    else:
        whole.unlink()
    datasets.memory_mapped(folder / "waves.parquet", "y", folder=place)
    assert sorted(path.name[:2] for path in place.iterdir()) == ["X-", "y-"]


def test_command_on_a_full_disk_keeps_whole_lines_and_says_why(folder):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (3000, resource.RLIM_INFINITY))

    ended = run(folder, COMMANDS["compare"], preexec_fn=limit)
    assert ended.status == 1
    reasons = "(File too large|the disk is full)"
    last = ended.said.splitlines()[-1]
    assert re.fullmatch(rf"mercer: cannot write results/compare-waves.*: {reasons}\.", last)
    assert halves(folder) == []
