"""A table given several times is one with weights; other repeats are told of."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from mercer import (
    AutoKernelClassifier,
    AutoKernelRegressor,
    KernelClassifier,
    KernelRegressor,
    LocalKernelClassifier,
    LocalKernelRegressor,
    SparseKernelRegressor,
)
from mercer.estimators.left_out_scales import LeftOutScaler
from mercer.kernels import Gaussian
from mercer.preparation.frames import frame_of
from mercer.preparation.repeats import copies_in, row_numbers

ALPHAS = [1e-5, 1e-3, 0.1]
N = 60


def noisy(n=N, seed=0):
    """Inputs, and targets most of which is noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 1.5 * rng.normal(size=n)


def tripled(*arrays):
    return [np.concatenate([each] * 3) for each in arrays]


REGRESSORS = {
    "exact": KernelRegressor("exact", alphas=ALPHAS),
    "fourier": KernelRegressor("fourier", n_components=40, alphas=ALPHAS, random_state=0),
    "held out": KernelRegressor("exact", alphas=ALPHAS, selection="holdout", random_state=0),
    "gammas": KernelRegressor("binning", gamma_path=[0.01, 1.0, 100.0], random_state=0),
    "left out": KernelRegressor("exact", selection="leave-one-out", random_state=0),
    "evidence": KernelRegressor("exact", selection="evidence", random_state=0),
    "leaves": LocalKernelRegressor(alphas=ALPHAS, leaf_size=30, random_state=0),
    "sparse": SparseKernelRegressor(alpha="cv", max_rounds=2, random_state=0),
}


@pytest.mark.parametrize("name", REGRESSORS)
def test_a_table_given_three_times_equals_one_with_weights_of_three(name):
    model, (X, y), (new, _) = REGRESSORS[name], noisy(), noisy(20, 1)
    wanted = model.fit(X, y, np.full(N, 3.0)).predict(new)
    with pytest.warns(UserWarning, match="180 of 180 rows are copies of others.* fitted as 60"):
        found = model.fit(*tripled(X, y)).predict(new)
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6 * np.abs(wanted).max())


@pytest.mark.parametrize(
    "model",
    [
        KernelClassifier("exact", alphas=ALPHAS),
        LocalKernelClassifier(alphas=ALPHAS, leaf_size=30, random_state=0),
    ],
)
def test_classes_given_three_times_equal_classes_with_weights_of_three(model):
    X, y = noisy()
    classes, new = np.where(y > 0, "up", "down"), noisy(20, 1)[0]
    wanted = model.fit(X, classes, np.full(N, 3.0)).predict_proba(new)
    with pytest.warns(UserWarning, match="are copies of others"):
        found = model.fit(*tripled(X, classes)).predict_proba(new)
    np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_copies_of_rows_with_weights_and_offsets_add_their_weights():
    X, y = noisy()
    weights, offset = np.arange(1.0, N + 1), np.linspace(-1, 1, N)
    model = KernelRegressor("exact", alphas=ALPHAS)
    wanted = model.fit(X, y, 3 * weights, offset).map_coef_
    with pytest.warns(UserWarning, match="are copies of others"):
        model.fit(*tripled(X, y, weights, offset))
    np.testing.assert_allclose(model.map_coef_, wanted, rtol=1e-9)


def test_copies_in_a_kernel_matrix_are_merged():
    X, y = noisy()
    K, (X3, y3), new = Gaussian(0.3)(X, X), tripled(X, y), noisy(20, 1)[0]
    model = KernelRegressor("exact", kernel="precomputed", alphas=ALPHAS)
    wanted = model.fit(K, y, np.full(N, 3.0)).predict(Gaussian(0.3)(new, X))
    with pytest.warns(UserWarning, match="are copies of others"):
        model.fit(Gaussian(0.3)(X3, X3), y3)
    np.testing.assert_allclose(model.predict(Gaussian(0.3)(new, X3)), wanted, rtol=1e-9)


def test_a_fit_that_chooses_nothing_keeps_every_row():
    X, y = tripled(*noisy())
    model = KernelRegressor("exact", alpha=0.1).fit(X, y)
    assert model.map_coef_.shape == (3 * N,)


def test_scales_by_left_out_errors_see_every_row_once():
    X, y = noisy()
    wanted = LeftOutScaler("gaussian", random_state=0).fit(X, y).left_out_error_
    with pytest.warns(UserWarning, match="are copies of others"):
        found = LeftOutScaler("gaussian", random_state=0).fit(*tripled(X, y)).left_out_error_
    assert found == pytest.approx(wanted, rel=0.01)


@pytest.mark.usefixtures("few_treatments")
def test_automatic_promises_of_copies_are_those_of_the_rows():
    X, y = noisy(120)
    new, truth = noisy(500, 1)
    once = AutoKernelRegressor(random_state=0).fit(X, y)
    with pytest.warns(UserWarning, match="are copies of others"):
        found = AutoKernelRegressor(random_state=0).fit(*tripled(X, y))
    assert found.validation_score_ == pytest.approx(once.validation_score_, abs=0.01)
    np.testing.assert_allclose(found.predict(new), once.predict(new), rtol=1e-6, atol=1e-6)
    ends = found.predict_interval(new)
    held = np.mean((ends[:, 0] <= truth) & (truth <= ends[:, 1]))
    wanted = once.predict_interval(new)
    assert held == pytest.approx(np.mean((wanted[:, 0] <= truth) & (truth <= wanted[:, 1])))


@pytest.mark.usefixtures("few_treatments")
def test_a_class_repeated_for_balance_is_a_class_with_weights():
    X, y = noisy(120)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(kind=np.where(X[:, 0] > 0, "x", "y"))
    rare = y > np.quantile(y, 0.75)
    rows = np.concatenate([np.arange(120), np.flatnonzero(rare).repeat(2)])
    with pytest.warns(UserWarning, match="90 of 180 rows are copies of others.* as 120 rows"):
        found = AutoKernelClassifier(random_state=0).fit(frame.iloc[rows], rare[rows])
    weighted = AutoKernelClassifier(random_state=0).fit(frame, rare, np.where(rare, 3.0, 1.0))
    assert found.validation_score_ == weighted.validation_score_
    np.testing.assert_array_equal(found.predict_proba(frame), weighted.predict_proba(frame))


@pytest.mark.usefixtures("few_treatments")
def test_held_out_rows_are_numbered_in_the_data_of_fit():
    X, y = noisy(120)
    X2, y2 = np.repeat(X, 2, axis=0), np.repeat(y, 2)
    with pytest.warns(UserWarning, match="are copies of others"):
        held = AutoKernelRegressor(random_state=0).fit(X2, y2).held_out_
    np.testing.assert_allclose(held["target"], y2[held["row"]])
    weights = np.tile([0.0, 1.0], 120)
    held = AutoKernelRegressor(random_state=0).fit(X2, y2, weights).held_out_
    assert (weights[held["row"]] > 0).all()


def test_equal_inputs_with_other_targets_are_told_of_and_stay():
    units, u = noisy(25)
    X, y = np.repeat(units, 4, axis=0), np.repeat(u, 4) + noisy(100, 3)[1]
    with pytest.warns(UserWarning, match="100 of 100 rows have the same inputs as another row"):
        KernelRegressor("exact", alphas=ALPHAS).fit(X, y)


@pytest.mark.usefixtures("few_treatments")
def test_groups_answer_the_warning_of_equal_inputs():
    units, u = noisy(25)
    X, y = np.repeat(units, 4, axis=0), np.repeat(u, 4) + noisy(100, 3)[1]
    with pytest.warns(UserWarning, match="same inputs as another row.* give groups="):
        AutoKernelRegressor(random_state=0).fit(X, y)
    AutoKernelRegressor(random_state=0).fit(X, y, groups=np.arange(100) // 4)


def silent(X, y, labels=None):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return copies_in(X, y, labels=labels, remedy="say so") is None


def test_repeats_of_few_values_are_due_to_chance():
    rng = np.random.default_rng(0)
    few = rng.integers(0, 3, size=(400, 3)).astype(float)
    y = few.sum(axis=1)
    assert silent(few, y)  # nearly all rows have a twin
    assert silent(few, (y > 3).astype(int), labels=(y > 3).astype(int))
    assert silent(sparse.csr_array(few), y)
    assert silent(np.tile(few[:15], (10, 1)), np.arange(150.0))  # 15 different rows show little
    ages = rng.integers(20, 80, size=(400, 1)).astype(float)
    assert silent(ages, y)
    assert silent(*noisy())


def test_a_table_in_which_few_rows_repeat_is_left_alone():
    X, y = noisy()
    assert silent(np.concatenate([X, X[:2]]), np.concatenate([y, y[:2]]))


@pytest.mark.parametrize("form", ["array", "csr", "frame", "objects", "mapped"])
def test_rows_have_equal_numbers_if_and_only_if_they_are_equal(form, tmp_path):
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(300, 3)))
    X[::7, 0] = np.nan
    X[X == 0] = rng.choice([0.0, -0.0], size=np.count_nonzero(X == 0))
    number = np.unique(np.nan_to_num(X, nan=99.0) + 0.0, axis=0, return_inverse=True)[1]
    frame = pd.DataFrame(X, columns=list("abc")).assign(c=lambda t: "k" + (t.c + 0.0).astype(str))
    np.save(tmp_path / "X.npy", X)
    forms = {
        "array": X,
        "csr": sparse.csr_array(X),
        "frame": frame_of(frame),
        "objects": frame.to_numpy(),
        "mapped": np.load(tmp_path / "X.npy", mmap_mode="r"),
    }
    found = row_numbers(forms[form])
    assert len(np.unique(found)) == len(np.unique(number))
    assert len(np.unique(np.column_stack([found, number.ravel()]), axis=0)) == len(np.unique(found))


def test_a_fifth_of_repeated_rows_is_told_of_and_every_row_counts():
    X, y = noisy()
    again = np.arange(0, N, 4)
    X, y = np.concatenate([X, X[again]]), np.concatenate([y, y[again]])
    model = KernelRegressor("exact", alphas=ALPHAS)
    with pytest.warns(UserWarning, match="30 of 75 rows have the same inputs as another row"):
        model.fit(X, y)
    assert model.map_coef_.shape == (75,)
