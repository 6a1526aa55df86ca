"""
Adding kernels
==============

Kernels add, multiply and take factors like numbers. A broad kernel for the trend plus a narrow one
for the detail fits what neither does alone.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelRegressor
from mercer.kernels import Gaussian

rng = np.random.default_rng(0)
x = np.sort(rng.uniform(0, 10, 300))
truth = 0.3 * x + np.exp(-(((x - 5) / 0.15) ** 2))
y = truth + rng.normal(0, 0.1, len(x))

plt.plot(x, y, ".", color="0.75", markersize=4)
broad, narrow = Gaussian(0.05), Gaussian(30.0)
for kernel, name in ((broad, "broad"), (narrow, "narrow"), (broad + 0.1 * narrow, "their sum")):
    model = KernelRegressor("exact", kernel=kernel, scale=False, alphas=np.geomspace(1e-6, 0.1, 11))
    fitted = model.fit(x[:, None], y).predict(x[:, None])
    error = np.sqrt(np.mean((fitted - truth) ** 2))
    plt.plot(x, fitted, label=f"{name}, error {error:.3f}")
plt.legend()
plt.xlabel("input")
plt.ylabel("target")
plt.show()
