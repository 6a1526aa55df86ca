"""Known parts of the targets of automatic models."""

import numpy as np
import pytest

from mercer import AutoKernelRegressor, persistence

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 2))
FORECAST = 5.0 + 3.0 * RNG.normal(size=300)
Y = FORECAST + np.sin(X[:, 0]) + 0.1 * RNG.normal(size=300)


@pytest.fixture(scope="module")
def model():
    return AutoKernelRegressor(random_state=0).fit(X, Y, offset=FORECAST)


def test_the_model_is_that_of_the_differences(model):
    other = AutoKernelRegressor(random_state=0).fit(X, Y - FORECAST)
    np.testing.assert_array_equal(model.predict(X, offset=0), other.predict(X))
    assert model.validation_score_ == other.validation_score_
    assert model.score(X, Y, offset=FORECAST) == pytest.approx(other.score(X, Y - FORECAST))


def test_means_quantiles_and_intervals_are_moved_by_it(model):
    for method, given in (
        ("predict", {}),
        ("predict", {"quantiles": [0.1, 0.5]}),
        ("predict_interval", {"coverage": 0.8}),
    ):
        plain = getattr(model, method)(X, offset=0, **given)
        moved = getattr(model, method)(X, offset=FORECAST, **given)
        by_row = FORECAST.reshape(-1, *[1] * (plain.ndim - 1))
        np.testing.assert_allclose(moved, plain + by_row, atol=1e-12)


def test_positive_targets_do_not_bound_predictions_beside_an_offset():
    model = AutoKernelRegressor(random_state=0).fit(X, Y - Y.min(), offset=FORECAST - Y.min() - 9.0)
    assert model.predict(X, offset=0).min() > 0  # 9 more than before
    other = AutoKernelRegressor(random_state=0).fit(X, np.exp(Y / 5), offset=np.exp(Y / 5) + 1.0)
    np.testing.assert_allclose(other.predict(X, offset=0), -1.0, atol=0.05)


def test_an_offset_of_another_length_is_refused():
    with pytest.raises(ValueError, match="offset must have a number for each of the 300 rows"):
        AutoKernelRegressor().fit(X, Y, offset=FORECAST[:-1])


def test_predictions_of_a_fit_with_an_offset_need_one(model, tmp_path):
    calls = [
        lambda: model.predict(X),
        lambda: model.predict(X, quantiles=[0.5]),
        lambda: model.predict_interval(X),
        lambda: model.score(X, Y),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=r"offset must be given, .* or offset=0 for"):
            call()
    persistence.save(model, tmp_path / "model.skops")
    again = persistence.load(tmp_path / "model.skops")
    with pytest.raises(ValueError, match="offset must be given"):
        again.predict(X)
