"""
Scales of the inputs, learned
=============================

One γ for all inputs counts noise as much as signal. :class:`~mercer.GradientScaler` learns from
gradients of a first model how much each input matters, and multiplies it accordingly.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.pipeline import make_pipeline

from mercer import GradientScaler, KernelRegressor

X, y = make_friedman1(2000, n_features=12, noise=1.0, random_state=0)
X_test, y_test = make_friedman1(1000, n_features=12, noise=1.0, random_state=1)

plain = KernelRegressor("exact", kernel="gaussian", random_state=0).fit(X, y)
scaled = make_pipeline(
    GradientScaler(random_state=0),
    KernelRegressor("exact", kernel="gaussian", scale=False, random_state=0),
).fit(X, y)

shares = np.std(scaled[0].transform(X), axis=0)
plt.bar(np.arange(12) + 1, shares / shares.sum())
plt.xlabel("input; only 1 to 5 enter the target")
plt.ylabel("share of the distance")
plt.title(f"R² {plain.score(X_test, y_test):.3f} without, {scaled.score(X_test, y_test):.3f} with")
plt.show()
