"""
Standard deviations of predictions
==================================

The machine of the squared loss is the mean of a Gaussian process. ``return_std=True`` gives its
standard deviation: small near rows, large where there are none.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelRegressor

rng = np.random.default_rng(1)
x = np.concatenate([rng.uniform(0, 2, 30), rng.uniform(4, 6, 30)])
y = np.sin(2 * x) + rng.normal(0, 0.1, len(x))
model = KernelRegressor("exact", kernel="gaussian", gamma=8.0, alpha=3e-4).fit(x[:, None], y)

grid = np.linspace(-0.5, 6.5, 300)
mean, deviation = model.predict(grid[:, None], return_std=True)
plt.plot(x, y, "k.")
plt.plot(grid, mean)
plt.fill_between(grid, mean - 2 * deviation, mean + 2 * deviation, alpha=0.25)
plt.title("mean and two standard deviations of new targets")
plt.xlabel("input")
plt.ylabel("target")
plt.show()
