"""
How full the bins are
=====================

Where hardly two rows share a bin, random binning overfits.
:func:`~mercer.diagnostics.collisions` counts the rows in the bins of a fitted model.
"""

import warnings

import matplotlib.pyplot as plt

from mercer import KernelClassifier
from mercer.datasets import load
from mercer.diagnostics import collisions

warnings.simplefilter("ignore", UserWarning)  # predict warns of the bins shown on the right
letter = load("letter")
figure, axes = plt.subplots(1, 2, figsize=(8.5, 3.4), sharey=True)
for ax, gamma in zip(axes, (0.05, 1.0), strict=True):
    model = KernelClassifier("binning", gamma=gamma, n_components=64, random_state=0)
    model.fit(letter.X[:4000], letter.y[:4000])
    found = collisions(model, letter.X_test)
    score = model.score(letter.X_test, letter.y_test)
    sizes = found.occupancy
    ax.loglog(sizes.counts, sizes.n_bins, ".")
    ax.set(xlabel="rows in a bin", title=f"γ = {gamma:g}: accuracy {score:.3f}")
    ax.text(
        0.97,
        0.9,
        f"{found.unseen:.0%} of the bins of test rows are new",
        ha="right",
        transform=ax.transAxes,
    )
axes[0].set_ylabel("bins")
plt.show()
