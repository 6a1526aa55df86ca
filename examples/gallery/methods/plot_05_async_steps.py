"""
Asynchronous steps
==================

:class:`~mercer.solvers.AsyncSVRG` moves weights on several threads that do not wait for each
other. Steps that are proved to converge although weights are read late, by
:func:`~mercer.solvers.step_bounds`, are far shorter than those that converge here.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from mercer import losses, penalties
from mercer.designs import Dense
from mercer.maps import RandomFourier
from mercer.problem import Problem
from mercer.solvers import AsyncSVRG, step_bounds

rng = np.random.default_rng(0)
X = rng.normal(size=(1500, 5))
y = np.where(np.sin(2 * X[:, 0]) + X[:, 1] > 0, 1.0, -1.0)
features = RandomFourier(gamma=0.1, n_components=80, random_state=0).fit_transform(X)
problem = Problem(Dense(features), y, losses.Logistic(), penalties.L1(1e-4))

warnings.simplefilter("ignore", ConvergenceWarning)  # twelve snapshots are for the figure
for step_size in (0.01, 0.05, 0.2):
    solver = AsyncSVRG(step_size=step_size, max_iter=12, tol=1e-9, n_jobs=1, random_state=0)
    trace = solver.solve(problem).trace
    plt.semilogy([row.optimality for row in trace], "o-", label=f"step {step_size:g}")
plt.title(f"proved with a delay of 32 steps: {step_bounds(problem, delay=32).convex:.4f}")
plt.xlabel("snapshots")
plt.ylabel("relative duality gap")
plt.legend()
plt.show()
