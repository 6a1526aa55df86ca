"""
Preconditioned conjugate gradients
==================================

The exact kernel machine of many rows is solved by products with its matrix. Without a
preconditioner a weak penalty makes that slow; a low-rank one from randomly pivoted Cholesky cures
it.
"""

import warnings

import matplotlib.pyplot as plt
from sklearn.datasets import make_friedman1
from sklearn.exceptions import ConvergenceWarning

from mercer import KernelRegressor
from mercer.plots import ConvergenceDisplay
from mercer.solvers import ConjugateGradient

X, y = make_friedman1(800, n_features=6, noise=0.5, random_state=0)
warnings.simplefilter("ignore", ConvergenceWarning)  # the figure shows who stops early
figure, ax = plt.subplots()
for preconditioner in (None, "rpcholesky"):
    solver = ConjugateGradient(tol=1e-6, max_iter=150, preconditioner=preconditioner)
    model = KernelRegressor(
        "exact", kernel="gaussian", gamma=0.1, alpha=1e-6, tol=1e-6, solver=solver
    )
    model.fit(X, y)
    name = preconditioner or "none"
    ConvergenceDisplay.from_estimator(model, x="iterations", y="optimality", name=name, ax=ax)
plt.show()
