"""``mercer fit`` with exact machines, a path of alphas, and checkpoints."""

import json
from functools import partial

import numpy as np
import pytest
from typer.testing import CliRunner

from mercer import persistence, solvers
from mercer.cli.app import app
from mercer.equations import KernelEquations


@pytest.fixture
def mercer(tmp_path, monkeypatch):
    """Runs a command beside a table of numbers with a smooth target."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, size=(120, 2))
    np.savez("waves.npz", X=X, y=np.sin(2 * X).sum(axis=1) + 0.1 * rng.normal(size=120))

    def run(*arguments):
        fixed = ("fit", "waves.npz", "--out", "m.skops", "--map", "exact")
        return CliRunner().invoke(app, [*fixed, *(str(argument) for argument in arguments)])

    return run


def test_alpha_is_chosen_along_a_path(mercer):
    done = mercer("--alphas", "1e-5, 1e-3,10", "--solver", "block", "--json")
    assert done.exit_code == 0, done.output
    summary = json.loads(done.stdout)
    model = persistence.load("m.skops")
    assert summary["path"]["alpha"] == [1e-5, 1e-3, 10]
    assert summary["alpha"] == model.alpha_ == [1e-5, 1e-3][int(model.alpha_ == 1e-3)]
    assert summary["alpha"] == [1e-5, 1e-3, 10][np.argmax(summary["path"]["score"])]
    assert summary["solver"] == model.solver_ == "block"
    assert "coef" not in summary["path"]
    assert model.at_alpha(10).predict(np.zeros((1, 2))).shape == (1,)


def test_people_are_told_what_was_chosen_and_how(mercer):
    told = mercer("--alphas", "1e-3,10", "--gamma-path", "0.01,1").stdout
    assert "gamma 1, chosen from 2 on every row, left out in turn" in told
    assert "alpha 0.001, chosen from 2 on every row, left out in turn" in told
    told = mercer("--alphas", "1e-3,10", "--loss", "huber").stdout
    assert "alpha 0.001, chosen from 2 on held-out rows" in told


def test_an_interrupted_fit_goes_on_from_its_checkpoint(mercer, tmp_path, monkeypatch):
    small = partial(solvers.BlockCoordinateDescent, block_size=20, checkpoint_every=1)
    monkeypatch.setattr(solvers, "BlockCoordinateDescent", small)
    arguments = ("--alpha", "1e-3", "--solver", "block", "--checkpoint", "kept")
    assert mercer(*arguments).exit_code == 0
    whole = persistence.load("m.skops")
    (tmp_path / "m.skops").unlink()
    assert not any(tmp_path.joinpath("kept").iterdir())

    moves = []

    def interrupted(*arguments, plain=KernelEquations.move):
        moves.append(arguments)
        if len(moves) == 4:
            raise KeyboardInterrupt
        return plain(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(KernelEquations, "move", interrupted)
        assert mercer(*arguments).exit_code != 0
    assert not (tmp_path / "m.skops").exists()
    assert any(tmp_path.joinpath("kept").iterdir())

    assert mercer(*arguments).exit_code == 0
    again = persistence.load("m.skops")
    np.testing.assert_array_equal(again.map_coef_, whole.map_coef_)
    assert again.solver == "block"
    assert not any(tmp_path.joinpath("kept").iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--checkpoint", "kept"), "--checkpoint must stand beside --solver block; got none"),
        (("--checkpoint", "k", "--solver", "cg"), "beside --solver block; got cg"),
        (("--checkpoint", "waves.npz", "--solver", "block"), "is not a folder"),
        (("--alphas", "small"), "--alphas must be numbers with commas between them"),
        (("--alphas", "1,2", "--alpha", "1"), "alpha must be left out beside alphas"),
        (
            ("--alphas", "1,2", "--sparse"),
            "--alphas must be left out beside --sparse; give --alpha",
        ),
        (("--n-components", "5"), "--n-components must be left out for --map exact"),
    ],
    ids=["nobody", "another", "file", "words", "twice", "sparse", "components"],
)
def test_what_makes_no_sense_is_refused_in_one_sentence(arguments, message, mercer, tmp_path):
    done = mercer(*arguments)
    assert done.exit_code == 1
    assert message in " ".join(done.stderr.split())
    assert not (tmp_path / "m.skops").exists()
