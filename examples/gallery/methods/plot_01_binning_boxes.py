"""
Random binning in two dimensions
================================

A random grid cuts the plane into boxes. Two points share a box with a probability that is the
Laplacian kernel, if widths are drawn from the right law; the share of grids in which they do is
what the features of :class:`~mercer.maps.RandomBinning` estimate.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer.kernels import Laplacian
from mercer.maps import RandomBinning

side = np.linspace(-1, 1, 200)
plane = np.array(np.meshgrid(side, side)).reshape(2, -1).T
origin = np.zeros((1, 2))

figure, axes = plt.subplots(1, 4, figsize=(10, 2.9))
for ax, n_grids in zip(axes, (1, 10, 300), strict=False):
    grids = RandomBinning(gamma=1.5, n_components=n_grids, random_state=3).fit(plane)
    shared = grids.transform(plane) @ grids.transform(origin).T
    ax.imshow(shared.toarray().reshape(200, 200), extent=(-1, 1, -1, 1), vmin=0, vmax=1)
    ax.set_title(f"{n_grids} grid{'s' * (n_grids > 1)}")

exact = Laplacian(1.5)(plane, origin)
axes[-1].imshow(exact.reshape(200, 200), extent=(-1, 1, -1, 1), vmin=0, vmax=1)
axes[-1].set_title("the kernel")
for ax in axes:
    ax.set(xticks=[], yticks=[])
plt.show()

# %%
# Colours are inner products with the point in the middle: with one grid 0 or 1, with many the
# kernel :math:`e^{-\gamma \|x - y\|_1}` up to an error of one over the root of their number.
