"""
Kernels of groups of columns
============================

Temperature depends on the season, the hour and the airport, and these effects nearly add. A sum of
kernels, each of its own columns, says so. The table has the weather at 4800 departures from New
York in 2013.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from mercer import KernelRegressor
from mercer.datasets import load
from mercer.explain import shapley_values
from mercer.kernels import Gaussian, Laplacian
from mercer.preparation import on_circle

flights = load("flights").X.to_pandas().dropna(subset=["temp"]).iloc[::2]
day = pd.to_datetime(flights.date).dt.day_of_year.to_numpy()
hour = (flights.sched_dep_time // 100).to_numpy()
airport = flights.origin.astype("category").cat.codes.to_numpy()
y = flights.temp.to_numpy()

# %%
# December meets January, and 23 o'clock meets midnight: points of circles know that. The kernel is
# a sum of one of the season, one of the hour, and one of the airport:
names = ["season sin", "season cos", "hour sin", "hour cos", "airport"]
columns = np.column_stack([on_circle(day, 365), on_circle(hour, 24), airport])
X = pd.DataFrame(columns, columns=names)
season, hours = Gaussian(0.1).on(names[:2]), Gaussian(0.3).on(names[2:4])
kernel = season + hours + Laplacian(1.0).on(["airport"])
new = day // 7 % 3 == 1  # whole weeks are left out
settings = {"alphas": np.logspace(-6, -2, 5), "random_state": 0}
settings["scale"] = [names[:2], names[2:4]]  # coordinates of a circle share one scale
model = KernelRegressor("exact", kernel=kernel, **settings).fit(X[~new], y[~new])
whole = KernelRegressor("exact", kernel=Gaussian(0.1), **settings).fit(X[~new], y[~new])
print(f"weeks left out, sum of kernels:            R2 {model.score(X[new], y[new]):.3f}")
print(f"weeks left out, one kernel of all columns: R2 {whole.score(X[new], y[new]):.3f}")

# %%
# They err about as much, and the sum tells what adds up to its answer.
# The contributions of the columns of a group are its part of the sum:
rows = X.iloc[::6]
parts = shapley_values(model, rows, background=X.iloc[::30]).values
figure, axes = plt.subplots(1, 2, figsize=(8.5, 3.4), sharey=True, layout="constrained")
groups = {"day of the year": (day, slice(0, 2)), "hour": (hour, slice(2, 4))}
for ax, (name, (shown, columns)) in zip(axes, groups.items(), strict=True):
    ax.plot(shown[::6], parts[:, columns].sum(axis=1), ".", markersize=4)
    ax.set(xlabel=name)
axes[0].set(ylabel="degrees Fahrenheit")
plt.show()
