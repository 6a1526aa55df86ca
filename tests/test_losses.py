"""Laws of the losses; every loss in the table takes the same tests."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mercer import losses
from mercer.losses import LOSSES, Huber, Logistic, Multinomial, SmoothHinge, Squared, SquaredHinge

POINTWISE = [cls() for cls in LOSSES.values() if not cls.joint] + [Huber(delta=0.3)]
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
    return u, rng.normal(scale=2, size=(n, k))


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
    for y in (-1.0, 1.0):
        hessian = loss.hessian(u, np.full_like(u, y))
        assert hessian.max() <= loss.lipschitz + 1e-12
        assert hessian.max() >= loss.lipschitz - 1e-3
        assert hessian.min() >= 0


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
    a = loss.gradient(u, y)
    other, _ = draw(loss, rng)
    pairing = (a * u).sum(1) if loss.joint else a * u
    crossed = (a * other).sum(1) if loss.joint else a * other
    conjugate = loss.conjugate(a, y)
    np.testing.assert_allclose(loss.value(u, y) + conjugate, pairing, atol=1e-9)
    assert np.all(loss.value(other, y) + conjugate >= crossed - 1e-9)


@pytest.mark.parametrize("loss", POINTWISE, ids=repr)
def test_conjugate_is_the_supremum(loss):
    u = np.linspace(-60, 60, 240_001)
    for y in (-1.0, 1.0):
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
    ],
    ids=repr,
)
def test_conjugate_is_infinite_outside_its_domain(loss, a):
    assert loss.conjugate(np.array([a]), np.array([1.0])) == [np.inf]


def test_conjugate_of_multinomial_is_infinite_off_the_simplex():
    y = np.eye(3)[[0, 0]]
    a = np.array([[-0.5, 0.6, -0.1], [0.1, 0.1, 0.1]])
    assert np.all(np.isinf(Multinomial().conjugate(a, y)))


@pytest.mark.parametrize("loss", [Logistic(), SquaredHinge(), SmoothHinge()], ids=repr)
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


def test_smooth_hinge_is_once_differentiable_where_its_pieces_meet():
    one, loss, h = np.ones(1), SmoothHinge(), 1e-9
    for at in (0.0, 1.0):
        for of in (loss.value, loss.gradient):
            np.testing.assert_allclose(of(at - h * one, one), of(at + h * one, one), atol=1e-8)
    assert loss.value(0 * one, one) == 0.5
    assert loss.value(one, one) == 0


def test_huge_responses_stay_finite(loss, dtype):
    size = np.array([1e4, -1e4, 700.0, -700.0, 0.0], dtype=dtype)
    u = np.stack([size, -size], axis=1)
    y = np.eye(2, dtype=dtype)[[0, 1, 1, 0, 0]]
    y = y if loss.joint else 2 * y - 1
    with np.errstate(all="raise", under="ignore"):
        for out in (loss.value(u, y), loss.gradient(u, y), loss.hessian(u, y)):
            assert np.all(np.isfinite(out))


def test_dtype_is_kept(loss, sample):
    u, y = (a.astype(np.float32) for a in sample)
    for out in (
        loss.value(u, y),
        loss.gradient(u, y),
        loss.hessian(u, y),
        loss.hessian_product(u, y, u),
        loss.conjugate(loss.gradient(u, y), y),
    ):
        assert out.dtype == np.float32


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


@pytest.mark.parametrize("name", ["hinge", "", None, 3])
def test_unknown_name_lists_the_names(name):
    with pytest.raises(ValueError, match=r"loss must be one of 'squared'.*multinomial"):
        losses.get(name)


@pytest.mark.parametrize("loss", [Logistic(), SquaredHinge(), SmoothHinge()], ids=repr)
def test_targets_other_than_signs_are_refused(loss):
    with pytest.raises(ValueError, match=r"y must be -1 or 1 for loss .*0"):
        loss.check_target(np.array([1.0, 0.0]))


@pytest.mark.parametrize("y", [np.ones(3), np.full((3, 2), 0.5), np.zeros((3, 2))])
def test_multinomial_targets_other_than_indicators_are_refused(y):
    with pytest.raises(ValueError, match="for loss 'multinomial'"):
        Multinomial().check_target(y)


@pytest.mark.parametrize("delta", [0, -1.0, np.inf, np.nan])
def test_huber_refuses_a_delta_that_is_not_positive(delta):
    with pytest.raises(ValueError, match="delta must be positive and finite; got"):
        Huber(delta)


@pytest.mark.parametrize("delta", ["1", None, True])
def test_huber_refuses_a_delta_that_is_no_number(delta):
    with pytest.raises(TypeError, match="delta must be a number; got"):
        Huber(delta)


def test_huber_with_a_numpy_delta_keeps_float32():
    u = np.ones(3, dtype=np.float32)
    assert Huber(np.float64(0.5)).value(u, u).dtype == np.float32


def test_examples_run(check_examples):
    check_examples(losses)
