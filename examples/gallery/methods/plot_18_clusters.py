"""
Clusters that k-means cannot see
================================

k-means splits space into cells around centres. Clusters of other shapes need the similarity of
close rows: :class:`~mercer.unsupervised.SpectralClustering` follows chains of them, and assigns new
rows, too.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import make_circles, make_moons
from sklearn.metrics import adjusted_rand_score

from mercer.unsupervised import SpectralClustering

rng = np.random.default_rng(0)
moons, moon = make_moons(1500, noise=0.06, random_state=0)
rings, ring = make_circles(1500, noise=0.05, factor=0.5, random_state=0)
turns = np.sqrt(rng.uniform(0.05, 1, 1500)) * 3 * np.pi
arm = rng.integers(2, size=1500)
spiral = turns[:, None] * np.column_stack(
    [np.cos(turns + np.pi * arm), np.sin(turns + np.pi * arm)]
)
spiral = (spiral + rng.normal(0, 0.25, spiral.shape)) / 10
scenes = {"moons": (moons, moon), "rings": (rings, ring), "spirals": (spiral, arm)}

# %%
# The scale of the kernel is chosen by the gap of the eigenvalues. The background shows the clusters
# of new rows, and the titles the agreement with the truth (adjusted Rand index):
figure, axes = plt.subplots(2, 3, figsize=(9, 6), sharex="col", sharey="col")
for column, (name, (X, truth)) in zip(axes.T, scenes.items(), strict=True):
    grids = [np.linspace(v.min() - 0.1, v.max() + 0.1, 150) for v in X.T]
    places = np.stack(np.meshgrid(*grids), axis=-1)
    models = {
        "k-means": KMeans(2, n_init=5, random_state=0),
        "spectral": SpectralClustering(
            2, feature_map="nystroem", n_features=400, gamma="eigengap", scale=False, random_state=0
        ),
    }
    for ax, (title, model) in zip(column, models.items(), strict=True):
        labels = model.fit_predict(X)
        areas = model.predict(places.reshape(-1, 2)).reshape(150, 150)
        ax.contourf(*grids, areas, levels=[-0.5, 0.5, 1.5], colors=["C0", "C1"], alpha=0.15)
        ax.scatter(*X.T, s=3, c=np.where(labels == 0, "C0", "C1"))
        ax.set(title=f"{name}, {title}: {adjusted_rand_score(truth, labels):.2f}", aspect="equal")
figure.tight_layout()
plt.show()
