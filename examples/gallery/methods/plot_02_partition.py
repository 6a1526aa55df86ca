"""
The leaves of local kernel machines
===================================

:class:`~mercer.LocalKernelRegressor` solves an exact kernel machine in every leaf of random trees
of cuts, so that time grows with the number of rows. Leaves overlap and are blended, which leaves no
jumps at the cuts.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import LocalKernelRegressor
from mercer.plots import PartitionDisplay

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, size=(4000, 2))
y = np.sin(6 * X[:, 0]) * np.cos(4 * X[:, 1]) + rng.normal(0, 0.1, len(X))
model = LocalKernelRegressor(leaf_size=300, n_trees=3, random_state=0).fit(X, y)

figure, (left, right) = plt.subplots(1, 2, figsize=(8.5, 3.9))
PartitionDisplay.from_estimator(model, features=(0, 1), ax=left)
left.set_title("")  # the display says it below
left.set_xlabel("leaves of one of three trees", fontsize=11)
left.set_ylabel("")

side = np.linspace(-1, 1, 120)
plane = np.array(np.meshgrid(side, side)).reshape(2, -1).T
right.imshow(
    model.predict(plane).reshape(120, 120), origin="lower", extent=(-1, 1, -1, 1), cmap="RdBu"
)
right.set_xlabel("predictions of the model", fontsize=11)
plt.show()
