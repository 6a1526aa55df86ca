"""Kernel machines in 80 decimal digits, by short formulas: what extreme fits are held to."""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext

import numpy as np

DIGITS = 80
CONTEXT = Context(prec=DIGITS, Emax=MAX_EMAX, Emin=MIN_EMIN)

_decimal = np.frompyfunc(Decimal, 1, 1)
_exp = np.frompyfunc(lambda value: CONTEXT.exp(value), 1, 1)
_sqrt = np.frompyfunc(lambda value: CONTEXT.sqrt(value), 1, 1)


def exact(array):
    """Floats as decimal numbers, exactly."""
    return _decimal(np.asarray(array, dtype=np.float64))


def scaled(X, mean=None, scale=None):
    """Rows with a scaler's mean and scale, not rounded."""
    with localcontext(CONTEXT):
        X = exact(X)
        return X if mean is None else (X - exact(mean)) / exact(scale)


def gaussian(X, Y, gamma):
    """exp(-gamma |x - y|^2) of decimal rows."""
    with localcontext(CONTEXT):
        squares = sum((X[:, None, j] - Y[None, :, j]) ** 2 for j in range(X.shape[1]))
        return _exp(-Decimal(float(gamma)) * squares)


def laplacian(X, Y, gamma):
    """exp(-gamma |x - y|_1) of decimal rows."""
    with localcontext(CONTEXT):
        sums = sum(abs(X[:, None, j] - Y[None, :, j]) for j in range(X.shape[1]))
        return _exp(-Decimal(float(gamma)) * sums)


def product(A, B):
    """A @ B."""
    with localcontext(CONTEXT):
        return A @ B


def solve(A, B):
    """A⁻¹ B for a symmetric positive definite A, by Cholesky's factor."""
    with localcontext(CONTEXT):
        left, x = A.copy(), np.array(B, dtype=object).reshape(len(A), -1)
        n = len(left)
        for j in range(n):
            if left[j, j] <= 0:
                raise ArithmeticError("the matrix is not positive definite in 80 digits.")
            left[j:, j] = left[j:, j] / left[j, j].sqrt()
            x[j] = x[j] / left[j, j]
            below = left[j + 1 :, j]
            left[j + 1 :, j + 1 :] -= below[:, None] * below[None, :]
            x[j + 1 :] -= below[:, None] * x[j]
        for j in reversed(range(n)):
            x[j] = (x[j] - left[j + 1 :, j] @ x[j + 1 :]) / left[j, j]
        return x.reshape(np.shape(B))


def ridge(K, K_new, y, alpha, weights=None, intercept=True):
    """Responses to training and new rows of min (1/n) Σ s_i (y_i - f_i - b)²/2 + alpha |f|²/2.

    With all weights above 0: (K + n alpha S⁻¹) a = y - b, and the a add up to zero.
    """
    with localcontext(CONTEXT):
        n = len(y)
        weights = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
        s = exact(weights)
        s = s / (s.sum() / n)
        A = K.copy()
        ridges = n * Decimal(float(alpha)) / s
        A[np.diag_indices(n)] += ridges
        target = exact(y)
        a = solve(A, np.stack([target, exact(np.ones(n))], axis=1))
        b = a[:, 0].sum() / a[:, 1].sum() if intercept else Decimal(0)
        a = a[:, 0] - b * a[:, 1]
        f, new = K @ a + b, K_new @ a + b
    return f.astype(np.float64), new.astype(np.float64)


def logistic(K, K_new, y, alpha, intercept=True, loss="logistic"):
    """Responses for labels ±1 and the loss log(1 + exp(-yf)), or max(0, 1 - yf)², by Newton."""
    with localcontext(CONTEXT):
        n = len(y)
        y, ridge_ = exact(y), n * Decimal(float(alpha))
        f, a, b = exact(np.zeros(n)), exact(np.zeros(n)), Decimal(0)
        value = _objective(loss, y, f, a, K, ridge_)
        for _ in range(200):
            gradient, hessian = _derivatives(loss, y, f)
            # Newton's a solves (H K + n alpha) a = H f - gradient, and its sum is zero.
            root = _sqrt(hessian)
            B = root[:, None] * K * root[None, :]
            B[np.diag_indices(n)] += ridge_
            right = hessian * (f - b) - gradient
            right = np.stack([right + hessian * b, hessian], axis=1)
            # (H K + r) a = v  =>  a = (v - √H B⁻¹ √H K v) / r
            inner = solve(B, root[:, None] * (K @ right))
            both = (right - root[:, None] * inner) / ridge_
            total = both[:, 1].sum()
            new_b = both[:, 0].sum() / total if intercept and total > 0 else b * 0
            new_a = both[:, 0] - new_b * both[:, 1]
            step = Decimal(1)
            for _ in range(60):
                a1, b1 = a + step * (new_a - a), b + step * (new_b - b)
                f1 = K @ a1 + b1
                new_value = _objective(loss, y, f1, a1, K, ridge_)
                if new_value <= value:
                    break
                step /= 2
            done = value - new_value <= Decimal("1e-25") * abs(value)
            a, b, f, value = a1, b1, f1, new_value
            if done:
                break
        new = K_new @ a + b
    return f.astype(np.float64), new.astype(np.float64)


def _objective(loss, y, f, a, K, ridge_):
    margins = y * f
    if loss == "logistic":
        losses = sum(
            CONTEXT.ln(1 + CONTEXT.exp(-m)) if m > 0 else -m + CONTEXT.ln(1 + CONTEXT.exp(m))
            for m in margins
        )
    else:
        losses = sum(max(Decimal(0), 1 - m) ** 2 for m in margins)
    return losses + ridge_ * (a @ (K @ a)) / 2


def _derivatives(loss, y, f):
    margins = y * f
    if loss == "logistic":
        p = np.array([1 / (1 + CONTEXT.exp(m)) for m in margins], dtype=object)
        return -y * p, p * (1 - p)
    slack = np.array([max(Decimal(0), 1 - m) for m in margins], dtype=object)
    return -2 * y * slack, np.array([Decimal(2) if s > 0 else Decimal(0) for s in slack])
