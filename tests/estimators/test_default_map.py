"""feature_map="auto": the exact kernel for few rows, random binning for others."""

import numpy as np
import pytest

import mercer
from mercer import KernelClassifier, KernelRegressor, maps
from mercer.estimators import machine


def chosen(model, n=40):
    X = np.random.default_rng(0).normal(size=(n, 2))
    y = (X[:, 0] > 0).astype(float) if isinstance(model, KernelClassifier) else 1 + X[:, 0] ** 2
    return type(model.fit(X, y).feature_map_)


@pytest.mark.parametrize("kind", [KernelRegressor, KernelClassifier])
def test_few_rows_take_the_exact_kernel_and_more_take_bins(kind, monkeypatch):
    assert kind().feature_map == "auto"
    assert chosen(kind()) is maps.ExactKernel
    assert chosen(kind("binning")) is maps.RandomBinning
    monkeypatch.setattr(machine, "_MOST_EXACT", 39)
    assert chosen(kind()) is maps.RandomBinning


@pytest.mark.parametrize("solver", ["auto", "cholesky", "cg", "newton-cg"])
def test_solvers_of_the_exact_kernel_keep_it(solver):
    loss = "poisson" if solver == "newton-cg" else "squared"
    model = KernelRegressor(solver=solver, loss=loss)
    assert chosen(model) is maps.ExactKernel
    by_rows = {"newton-cg": "row-newton"}  # of the exact kernel
    assert by_rows.get(solver, solver) in ("auto", model.solver_)


@pytest.mark.parametrize(
    "settings",
    [
        {"penalty": "l1"},
        {"penalty": "elastic-net"},
        {"penalty": mercer.penalties.L2(0.01)},
        {"solver": "block"},
        {"solver": "cd", "loss": "squared"},
        {"n_components": 8},
        {"gamma_path": [0.1, 1.0]},
        {"loss": "quantile"},
        {"loss": "correntropy"},
    ],
    ids=repr,
)
def test_settings_that_ask_for_features_take_bins(settings):
    assert chosen(KernelRegressor(random_state=0, **settings)) is maps.RandomBinning


def test_alphas_and_posteriors_take_the_exact_kernel():
    model = KernelRegressor(alphas=[1e-4, 1e-2])
    assert chosen(model) is maps.ExactKernel
    assert len(model.predict(np.zeros((1, 2)), return_std=True)) == 2


def test_a_model_is_calibrated_with_the_map_of_its_fit(monkeypatch):
    monkeypatch.setattr(machine, "_MOST_EXACT", 30)  # more than one half of the rows
    model = KernelClassifier(random_state=0)
    chosen(model)
    assert model._to_calibrate().feature_map == "binning"


def test_no_room_for_the_kernel_matrix_takes_bins(monkeypatch):
    monkeypatch.setattr(machine, "available_memory", lambda: 1000)
    assert chosen(KernelRegressor()) is maps.RandomBinning
