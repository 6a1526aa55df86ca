"""
Quantiles
=========

One model per level: :class:`~mercer.losses.Quantile` is solved to a certified duality gap, kink and
all.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelRegressor
from mercer.losses import Quantile

rng = np.random.default_rng(0)
x = np.sort(rng.uniform(0, 4, 500))
y = np.sin(2 * x) + rng.gamma(1.0, 0.1 + 0.15 * x)

plt.plot(x, y, ".", color="0.7", markersize=3)
for level in (0.1, 0.5, 0.9):
    model = KernelRegressor("fourier", gamma=1.0, loss=Quantile(level), alpha=1e-4, random_state=0)
    fitted = model.fit(x[:, None], y).predict(x[:, None])
    plt.plot(x, fitted, label=f"{level:.0%}: {np.mean(y <= fitted):.0%} of rows are below")
plt.legend()
plt.xlabel("input")
plt.ylabel("target")
plt.show()
