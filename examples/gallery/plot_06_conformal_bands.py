"""
Intervals as wide as errors near a row
======================================

Intervals of :class:`~mercer.AutoKernelRegressor` are calibrated on held-out rows and follow the
size of errors from place to place. Here noise grows to the right.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from mercer import AutoKernelRegressor

rng = np.random.default_rng(0)
x = rng.uniform(0, 6, 1500)
table = pd.DataFrame({"x": x})
y = np.sin(2 * x) + rng.normal(0, 0.05 + 0.12 * x)
model = AutoKernelRegressor(random_state=0).fit(table[:1000], y[:1000])

grid = pd.DataFrame({"x": np.linspace(0, 6, 300)})
low, high = model.predict_interval(grid, coverage=0.9).T
test_low, test_high = model.predict_interval(table[1000:], coverage=0.9).T
covered = np.mean((test_low <= y[1000:]) & (y[1000:] <= test_high))

plt.plot(x[1000:], y[1000:], ".", color="0.6", markersize=3)
plt.plot(grid.x, model.predict(grid))
plt.fill_between(grid.x, low, high, alpha=0.25)
plt.title(f"{covered:.0%} of 500 new rows are in intervals meant for 90 %")
plt.xlabel("x")
plt.show()
