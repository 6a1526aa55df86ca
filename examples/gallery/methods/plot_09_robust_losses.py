"""
Targets that are wrong
======================

A fifth of the targets are moved far away. The squared loss follows them; with correntropy a row
that is far off counts for nothing.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelRegressor

rng = np.random.default_rng(0)
x = np.sort(rng.uniform(0, 6, 400))
truth = np.sin(2 * x)
y = truth + rng.normal(0, 0.1, len(x))
wrong = rng.random(len(x)) < 0.2
y[wrong] += rng.uniform(2, 5, wrong.sum())

plt.plot(x, y, ".", color="0.7", markersize=3)
plt.plot(x, truth, "k--", linewidth=1, label="truth")
for loss in ("squared", "huber", "correntropy"):
    model = KernelRegressor("fourier", gamma=1.0, alpha=1e-3, loss=loss, random_state=0)
    fitted = model.fit(x[:, None], y).predict(x[:, None])
    error = np.sqrt(np.mean((fitted - truth) ** 2))
    plt.plot(x, fitted, label=f"{loss}, error {error:.2f}")
plt.legend(ncol=2, fontsize=8)
plt.xlabel("input")
plt.ylabel("target")
plt.show()
