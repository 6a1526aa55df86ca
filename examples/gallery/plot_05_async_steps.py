"""
Asynchronous steps
==================

:class:`~mercer.solvers.AsyncSVRG` moves weights on several threads that do not wait for each
other. How long may a step be? Theory allows for weights that are read late:
:func:`~mercer.solvers.step_bounds` computes steps that are proved to converge. Practice takes far
longer ones.
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
figure, (left, right) = plt.subplots(1, 2, figsize=(8.5, 3.6))
for step_size in (0.01, 0.05, 0.2):
    solver = AsyncSVRG(step_size=step_size, max_iter=12, tol=1e-9, n_jobs=1, random_state=0)
    trace = solver.solve(problem).trace
    left.semilogy([row.optimality for row in trace], "o-", label=f"step {step_size:g}")
left.set(xlabel="snapshots", ylabel="relative duality gap")
left.legend()

delays = [0, 1, 2, 4, 8, 16, 32]
right.plot(delays, [step_bounds(problem, delay=delay).convex for delay in delays], "o-")
right.set(xlabel="delay, in steps", ylabel="step that is proved to converge", ylim=(0, None))
plt.show()
