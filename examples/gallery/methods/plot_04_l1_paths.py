"""
Paths of sparse models
======================

An L1 penalty leaves most random features without a weight. ``path`` fits one
:class:`~mercer.SparseKernelRegressor` per strength; held-out rows tell which one to keep.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from mercer import SparseKernelRegressor

X, y = load_diabetes(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, random_state=0)
y, y_test = (y - y.mean()) / y.std(), (y_test - y.mean()) / y.std()

alphas = np.geomspace(0.3, 0.01, 10)
drawing = SparseKernelRegressor("fourier", gamma=0.02, n_new=300, max_rounds=3, random_state=0)
models = drawing.path(X, y, alphas)

figure, ax = plt.subplots()
ax.semilogx(alphas, [model.n_features_active_ for model in models], "o-")
ax.set_xlabel("strength of the penalty")
ax.set_ylabel("features with a weight", color="C0")
other = ax.twinx()
other.spines.right.set_visible(True)
other.semilogx(alphas, [model.score(X_test, y_test) for model in models], "s-", color="C1")
other.set_ylabel("R² of held-out rows", color="C1")
plt.show()

# %%
# From right to left the penalty becomes weaker: features come in until the score stops growing.
