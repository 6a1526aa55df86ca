"""Laws of the losses; every loss in the table takes the same tests."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mercer import losses
from mercer.losses import (
    LOSSES,
    Correntropy,
    Expectile,
    Gamma,
    Hinge,
    Huber,
    Logistic,
    Multinomial,
    Poisson,
    Quantile,
    Sigmoid,
    SmoothHinge,
    SmoothQuantile,
    Squared,
    SquaredHinge,
    Tweedie,
)

POINTWISE = [cls() for cls in LOSSES.values() if not cls.joint]
POINTWISE += [Huber(delta=0.3), Correntropy(sigma=0.6), Quantile(0.1), SmoothQuantile(0.8, 0.3)]
POINTWISE += [Hinge().smoothed(0.3), Expectile(0.9), Tweedie(1.0), Tweedie(1.1), Tweedie(2.0)]
CONVEX = [loss for loss in POINTWISE if loss.convex]
NONCONVEX = [loss for loss in POINTWISE if not loss.convex]
JOINT = [cls() for cls in LOSSES.values() if cls.joint]
ALL = POINTWISE + JOINT


@pytest.fixture(params=ALL, ids=repr)
def loss(request):
    return request.param


@pytest.fixture
def sample(loss, rng):
    """Responses and targets that suit the loss."""
    return draw(loss, rng)


def draw(loss, rng, n=60, k=4):
    u = rng.normal(scale=2, size=(n, k))
    if loss.joint:
        return u, np.eye(k)[rng.integers(k, size=n)]
    if loss.is_classification:
        return u, rng.choice([-1.0, 1.0], size=(n, k))
    return u, targets(loss, rng.normal(scale=2, size=(n, k)))


def targets(loss, y):
    """Any numbers as targets that the loss allows."""
    if loss.link == "identity":
        return y
    least = 0.0 if loss.power < 2 else np.asarray(0.1, y.dtype)
    return np.where(y < -0.5, least, np.abs(y))


def test_gradient_is_the_derivative_of_the_value(loss, sample, rng):
    u, y = sample
    direction = rng.normal(size=u.shape)
    h = 1e-6
    slope = (loss.value(u + h * direction, y) - loss.value(u - h * direction, y)) / (2 * h)
    along = loss.gradient(u, y) * direction
    np.testing.assert_allclose(slope, along.sum(1) if loss.joint else along, atol=1e-6)


def test_hessian_product_is_the_derivative_of_the_gradient(loss, sample, rng):
    u, y = sample
    direction = rng.normal(size=u.shape)
    h = 1e-7
    slope = (loss.gradient(u + h * direction, y) - loss.gradient(u - h * direction, y)) / (2 * h)
    np.testing.assert_allclose(slope, loss.hessian_product(u, y, direction), atol=1e-6)


def test_hessian_is_the_diagonal_of_the_hessian_product(loss, sample):
    u, y = sample
    for c in range(u.shape[1]):
        unit = np.zeros_like(u)
        unit[:, c] = 1
        product = loss.hessian_product(u, y, unit)
        np.testing.assert_allclose(product[:, c], loss.hessian(u, y)[:, c], rtol=1e-12)


@pytest.mark.parametrize("loss", POINTWISE, ids=repr)
def test_lipschitz_bounds_the_second_derivative_and_is_attained(loss):
    u = np.linspace(-40, 40, 80_001)
    for y in targets(loss, np.array([-1.0, 1.0])):
        hessian = loss.hessian(u, np.full_like(u, y))
        assert np.abs(hessian).max() <= loss.lipschitz + 1e-12
        if np.isfinite(loss.lipschitz):
            assert np.abs(hessian).max() >= loss.lipschitz - 1e-3
        assert (hessian.min() >= 0) == loss.convex


def test_lipschitz_bounds_the_spectral_norm_of_the_multinomial_hessian(rng):
    loss = Multinomial()
    u = np.vstack([rng.normal(scale=3, size=(200, 3)), [[9.0, 9.0, -40.0]]])
    y = np.eye(3)[np.zeros(len(u), dtype=int)]
    columns = [loss.hessian_product(u, y, np.tile(unit, (len(u), 1))) for unit in np.eye(3)]
    norms = np.linalg.eigvalsh(np.stack(columns, axis=2)).max(axis=1)
    assert norms.max() <= loss.lipschitz + 1e-12
    assert norms.max() >= loss.lipschitz - 1e-3


def test_fenchel_young_holds_with_equality_at_the_gradient(loss, sample, rng):
    u, y = sample
    if not loss.convex:
        assert loss.conjugate(loss.gradient(u, y), y) is None
        return
    a = loss.gradient(u, y)
    other, _ = draw(loss, rng)
    pairing = (a * u).sum(1) if loss.joint else a * u
    crossed = (a * other).sum(1) if loss.joint else a * other
    conjugate = loss.conjugate(a, y)
    np.testing.assert_allclose(loss.value(u, y) + conjugate, pairing, atol=1e-9)
    assert np.all(loss.value(other, y) + conjugate >= crossed - 1e-9)


@pytest.mark.parametrize("loss", CONVEX, ids=repr)
def test_conjugate_is_the_supremum(loss):
    u = np.linspace(-60, 60, 240_001)
    for y in targets(loss, np.array([-1.0, 1.0])):
        for at in (-1.5, -0.2, 0.4, 2.0):
            a = loss.gradient(np.array([at]), np.array([y]))
            supremum = np.max(a * u - loss.value(u, np.full_like(u, y)))
            assert loss.conjugate(a, np.array([y])) == pytest.approx([supremum], abs=1e-6)


@pytest.mark.parametrize(
    ("loss", "a"),
    [
        (Logistic(), 0.1),
        (Logistic(), -1.1),
        (SquaredHinge(), 0.1),
        (SmoothHinge(), 0.1),
        (SmoothHinge(), -1.1),
        (Huber(0.5), 0.6),
        (Quantile(0.8), 0.21),
        (Quantile(0.8), -0.81),
        (SmoothQuantile(0.8), 0.21),
        (Poisson(), -1.1),
        (Gamma(), 1.1),
    ],
    ids=repr,
)
def test_conjugate_is_infinite_outside_its_domain(loss, a):
    assert loss.conjugate(np.array([a]), np.array([1.0])) == [np.inf]


def test_conjugate_of_multinomial_is_infinite_off_the_simplex():
    y = np.eye(3)[[0, 0]]
    a = np.array([[-0.5, 0.6, -0.1], [0.1, 0.1, 0.1]])
    assert np.all(np.isinf(Multinomial().conjugate(a, y)))


@pytest.mark.parametrize(
    "loss", [Logistic(), Hinge(), SquaredHinge(), SmoothHinge(), Sigmoid()], ids=repr
)
@settings(max_examples=50, deadline=None)
@given(v=st.floats(-50, 50), step=st.floats(0.0, 10))
def test_classification_losses_never_increase_with_the_margin(loss, v, step):
    for y in (-1.0, 1.0):
        low, high = np.array([y * v]), np.array([y * (v + step)])
        assert loss.value(high, np.array([y])) <= loss.value(low, np.array([y]))


def test_multinomial_of_two_classes_is_logistic_of_the_difference(rng):
    u = rng.normal(scale=5, size=(50, 2))
    y = rng.integers(2, size=50)
    logistic = Logistic().value(u[:, 1] - u[:, 0], 2.0 * y - 1)
    np.testing.assert_allclose(Multinomial().value(u, np.eye(2)[y]), logistic, atol=1e-12)


@pytest.mark.parametrize("loss", [Huber(), Squared()], ids=repr)
def test_huber_is_squared_inside_delta(loss, rng):
    u = rng.uniform(-1.3, 1.3, size=100)
    y = np.zeros(100)
    np.testing.assert_allclose(loss.value(u, y), 0.5 * u**2)
    np.testing.assert_allclose(loss.gradient(u, y), u)


@pytest.mark.parametrize("width", [0.25, 1.0])
def test_smoothed_hinges_are_moreau_envelopes(width):
    u, s = np.linspace(-3, 3, 61), np.linspace(-6, 6, 24_001)
    smooth = Hinge().smoothed(width)
    for y in (-np.ones(1), np.ones(1)):
        envelope = [np.min(Hinge().value(s, y) + (s - v) ** 2 / (2 * width)) for v in u]
        np.testing.assert_allclose(smooth.value(u, y), envelope, atol=1e-6)
        excess = Hinge().value(u, y) - smooth.value(u, y)
        assert excess.min() >= 0
        assert excess.max() <= 0.5 * width + 1e-12
        if width == 1:
            np.testing.assert_array_equal(smooth.value(u, y), SmoothHinge().value(u, y))


def test_constant_of_the_hinge_is_the_class_of_most_rows(rng):
    y = rng.choice([-1.0, 1.0], p=[0.2, 0.8], size=200)
    best = Hinge().constant(y.mean(), len(y))
    values = [np.mean(Hinge().value(np.full(200, c), y)) for c in np.linspace(-3, 3, 601)]
    assert np.mean(Hinge().value(np.full(200, best), y)) <= min(values) + 1e-12


def test_smooth_hinge_is_once_differentiable_where_its_pieces_meet():
    one, loss, h = np.ones(1), SmoothHinge(), 1e-9
    for at in (0.0, 1.0):
        for of in (loss.value, loss.gradient):
            np.testing.assert_allclose(of(at - h * one, one), of(at + h * one, one), atol=1e-8)
    assert loss.value(0 * one, one) == 0.5
    assert loss.value(one, one) == 0


@pytest.mark.parametrize(
    "loss", [Logistic(), Hinge(), SquaredHinge(), SmoothHinge(), Sigmoid()], ids=repr
)
def test_a_right_answer_costs_less_than_a_wrong_one(loss):
    for y in (-1.0, 1.0):
        right, wrong = loss.value(np.array([2 * y, -2 * y]), np.full(2, y))
        assert right < 0.3 * wrong


def test_correntropy_is_squared_for_a_large_sigma_and_bounded_for_any(rng):
    u, y = rng.normal(size=50), rng.normal(size=50)
    wide, squared = Correntropy(1e4), Squared()
    for of in ("value", "gradient", "hessian"):
        np.testing.assert_allclose(
            getattr(wide, of)(u, y), getattr(squared, of)(u, y), rtol=1e-6, atol=1e-12
        )
    far = np.array([-1e150, -60.0, 60.0, 1e150])
    np.testing.assert_allclose(Correntropy(0.5).value(far, np.zeros(4)), 0.125)
    assert not np.any(Correntropy(0.5).gradient(far, np.zeros(4)))


def test_sigmoid_is_bounded_and_one_half_at_the_boundary():
    u = np.array([-800.0, -1.0, 0.0, 1.0, 800.0])
    value = Sigmoid().value(u, np.ones(5))
    np.testing.assert_allclose(value, 1 / (1 + np.exp(np.minimum(u, 700))), atol=1e-300)
    assert value[2] == 0.5
    np.testing.assert_allclose(value + Sigmoid().value(u, -np.ones(5)), 1)


@pytest.mark.parametrize("loss", NONCONVEX, ids=repr)
def test_model_curvature_is_that_of_a_convex_function_above_the_loss(loss):
    u = np.linspace(-30, 30, 3001)
    for y in (-1.0, 1.0):
        targets = np.full_like(u, y)
        for at in (-4.0, -0.7, 0.0, 0.3, 1.0, 6.0):
            point, target = np.array([at]), np.array([y])
            h = loss.model_curvature(point, target)
            slope = loss.gradient(point, target)
            value = loss.value(point, target)
            if loss.is_classification:
                log = Logistic()
                share = np.exp(-log.value(point, target))
                above = value + share * (log.value(u, targets) - log.value(point, target))
                np.testing.assert_allclose(h, share * log.hessian(point, target))
                np.testing.assert_allclose(slope, share * log.gradient(point, target))
            else:
                above = value + slope * (u - at) + 0.5 * h * (u - at) ** 2
            assert h > 0
            assert np.all(above >= loss.value(u, targets) - 1e-12)


def test_models_with_correntropy_begin_at_the_weighted_median(rng):
    y = np.concatenate([rng.normal(size=101), np.full(60, 1e6)])
    weights = np.ones(len(y))
    weights[101:] = 0.5

    def mean(rows):
        return weights @ rows / len(rows)

    start = Correntropy().start(y, mean)
    assert weights[y <= start].sum() >= 0.5 * weights.sum() > weights[y < start - 1e-9].sum()


def test_sigma_of_residuals_is_the_standard_deviation_of_most(rng):
    r = rng.normal(scale=3, size=20_001) + 7
    r[:3000] = 1e9
    assert Correntropy.of_residuals(r).sigma == pytest.approx(3, rel=0.25)
    assert Correntropy.of_residuals(r[3000:]).sigma == pytest.approx(3, rel=0.03)
    with pytest.raises(ValueError, match="residuals must have a spread"):
        Correntropy.of_residuals(np.zeros(5))


def test_huge_responses_stay_finite(loss, dtype):
    size = np.array([1e4, -1e4, 700.0, -700.0, 0.0], dtype=dtype)
    u = np.stack([size, -size], axis=1)
    y = np.eye(2, dtype=dtype)[[0, 1, 1, 0, 0]]
    y = y if loss.joint else targets(loss, 2 * y - 1)
    with np.errstate(all="raise", under="ignore"):
        for out in (loss.value(u, y), loss.gradient(u, y), loss.hessian(u, y)):
            # What grows as an exponential is infinite where that is, and is never no number.
            assert not np.any(np.isnan(out))
            assert loss.link == "log" or np.all(np.isfinite(out))


def test_dtype_is_kept(loss, sample):
    u, y = (a.astype(np.float32) for a in sample)
    for out in (
        loss.value(u, y),
        loss.gradient(u, y),
        loss.hessian(u, y),
        loss.hessian_product(u, y, u),
        loss.model_curvature(u, y),
        loss.conjugate(loss.gradient(u, y), y),
    ):
        assert out is None or out.dtype == np.float32


@pytest.mark.parametrize("loss", CONVEX + JOINT, ids=repr)
def test_balanced_derivatives_have_mean_zero_and_a_finite_conjugate(loss, sample):
    u, y = sample
    weights = np.linspace(0, 2, len(u))

    def mean(rows):
        return weights @ rows / len(rows)

    a = loss.balance(loss.gradient(u, y), y, mean)
    np.testing.assert_allclose(mean(a), 0, atol=1e-14)
    assert np.all(np.isfinite(loss.conjugate(a, y)))
    np.testing.assert_allclose(loss.balance(a, y, mean), a, atol=1e-14)


@pytest.mark.parametrize("loss", [Squared(), Logistic(), SquaredHinge(), SmoothHinge()], ids=repr)
def test_constant_is_the_best_shared_response(loss, rng):
    y = rng.choice([-1.0, 1.0], p=[0.2, 0.8], size=200)
    best = loss.constant(y.mean(), len(y))
    assert np.mean(loss.gradient(np.full(200, best), y)) == pytest.approx(0, abs=1e-12)


def test_constant_of_multinomial_gives_the_class_frequencies(rng):
    y = np.eye(3)[rng.choice(3, p=[0.1, 0.3, 0.6], size=200)]
    best = Multinomial().constant(y.mean(0), len(y))
    np.testing.assert_allclose(Multinomial().proba(best[None])[0], y.mean(0))


@pytest.mark.parametrize("loss", [Logistic(), Multinomial()], ids=repr)
def test_constant_is_finite_when_a_class_is_missing(loss):
    mean = np.array([0.0, 1.0]) if loss.joint else np.array(1.0)
    assert np.all(np.isfinite(loss.constant(mean, 100)))


def test_an_absent_class_counts_as_half_a_row():
    odds = np.log(0.5 / 99.5)
    np.testing.assert_allclose(Logistic().constant(np.array([-1.0, 1.0]), 100), [odds, -odds])
    rare, common = Multinomial().constant(np.array([0.0, 1.0]), 100)
    assert rare - common == pytest.approx(np.log(0.5 / 100))


@pytest.mark.parametrize("loss", [Poisson(), Tweedie(1.5)], ids=repr)
def test_targets_that_are_all_zero_count_as_half_a_unit(loss):
    assert loss.constant(np.array(0.0), 100) == pytest.approx(np.log(0.5 / 100))


def test_probabilities_only_where_the_loss_models_them(loss, sample):
    u, _ = sample
    if not loss.has_proba:
        with pytest.raises(NotImplementedError, match="no model of probabilities"):
            loss.proba(u)
        return
    p = loss.proba(u)
    assert np.all((p >= 0) & (p <= 1))
    if loss.joint:
        np.testing.assert_allclose(p.sum(1), 1)
    else:
        np.testing.assert_allclose(p, 1 / (1 + np.exp(-u)))


@pytest.mark.parametrize("name", list(LOSSES))
def test_losses_are_found_by_name_and_pass_through(name):
    loss = losses.get(name)
    assert loss.name == name
    assert losses.get(loss) is loss
    assert pickle.loads(pickle.dumps(loss)) == loss


@pytest.mark.parametrize("name", ["hing", "", None, 3])
def test_unknown_name_lists_the_names(name):
    with pytest.raises(ValueError, match=r"loss must be one of 'squared'.*multinomial"):
        losses.get(name)


@pytest.mark.parametrize(
    "loss", [Logistic(), Hinge(), SquaredHinge(), SmoothHinge(), Sigmoid()], ids=repr
)
def test_targets_other_than_signs_are_refused(loss):
    with pytest.raises(ValueError, match=r"y must be -1 or 1 for loss .*0"):
        loss.check_target(np.array([1.0, 0.0]))


@pytest.mark.parametrize("y", [np.ones(3), np.full((3, 2), 0.5), np.zeros((3, 2))])
def test_multinomial_targets_other_than_indicators_are_refused(y):
    with pytest.raises(ValueError, match="for loss 'multinomial'"):
        Multinomial().check_target(y)


@pytest.mark.parametrize(("cls", "name"), [(Huber, "delta"), (Correntropy, "sigma")])
def test_shapes_have_to_be_positive_numbers_and_leave_float32_alone(cls, name):
    for wrong in (0, -1.0, np.inf, np.nan):
        with pytest.raises(ValueError, match=f"{name} must be positive and finite; got"):
            cls(wrong)
    for wrong in ("1", None, True):
        with pytest.raises(TypeError, match=f"{name} must be a number; got"):
            cls(wrong)
    u = np.ones(3, dtype=np.float32)
    assert cls(np.float64(0.5)).value(u, u).dtype == np.float32
    assert cls(0.5).parameter == 0.5


def test_examples_run(check_examples):
    modules = (losses, losses.regression, losses.quantiles, losses.counts)
    for module in (*modules, losses.classification, losses.multinomial):
        check_examples(module)
