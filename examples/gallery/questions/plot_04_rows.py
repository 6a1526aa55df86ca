"""
How many rows do I need?
========================

Would twice as many patients make the predictions better? The table has 442 patients with
diabetes, ten raw measurements of each, and how far the disease went in a year.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import ShuffleSplit, learning_curve

from mercer import KernelRegressor

data = load_diabetes(as_frame=True, scaled=False)
print(data.frame.head(4).to_string(index=False))

# %%
# Fit parts of the table, from 25 rows on, and measure the error on 100 other patients; 20 splits
# show how much of a difference is chance:
sizes, _, scores = learning_curve(
    KernelRegressor("exact", random_state=0),
    data.data,
    data.target,
    train_sizes=[25, 50, 100, 200, 340],
    cv=ShuffleSplit(20, test_size=100, random_state=0),
    scoring="neg_mean_absolute_error",
)
error = -scores
constant = np.abs(data.target - data.target.median()).mean()

figure, ax = plt.subplots()
ax.errorbar(sizes, error.mean(1), error.std(1) / np.sqrt(20), fmt="o-", capsize=3)
ax.axhline(constant, color="0.5", linestyle=":")
ax.annotate(
    "the median for everybody", (340, constant), (0, -12), textcoords="offset points", ha="right"
)
ax.set(xscale="log", xlabel="patients fitted", ylabel="mean absolute error")
ax.set_xticks(sizes, [f"{size}" for size in sizes])
ax.minorticks_off()
plt.show()

# %%
# The answer: more patients still help, if less and less, while the last step is well above its
# standard error:
gains = 1 - error.mean(1)[1:] / error.mean(1)[:-1]
for more, size, gain in zip(sizes[1:], sizes, gains, strict=False):
    print(f"{size} to {more} patients: the error falls by {gain:.1%}")
paired = error[-2] - error[-1]
print(f"last step: {paired.mean():.2f} ± {paired.std(ddof=1) / np.sqrt(20):.2f} (standard error)")
