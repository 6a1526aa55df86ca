"""
Rows that come and go
=====================

``partial_fit`` adds rows to a kernel machine, and ``forget`` takes them out again: the model always
equals the fit to the rows that it holds. Here a window of 60 days moves through the flights from
New York in 2013, against a model of all days so far.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from mercer import KernelRegressor
from mercer.datasets import load

data = load("flights")
weather = ["temp", "humid", "pressure", "wind_speed", "visib"]
flights = data.X.to_pandas().assign(late=np.asarray(data.y) == "late").dropna(subset=weather)
date = pd.to_datetime(flights.date)
day = date.dt.day_of_year.to_numpy()
columns = [flights[name] / flights[name].std() for name in weather]
columns += [flights.sched_dep_time / 400, flights.distance / 700, flights.origin == "JFK"]
X = np.column_stack(columns).astype(float)
settings = {"gamma": 0.1, "scale": False, "alpha": 0.01, "n_components": 200, "random_state": 0}


# %%
# Every day is predicted before it comes in; then the window gives up its oldest day:
def predicted(X, y, window=60):
    """Predictions of each day by the last 60 days, and by all days before it."""
    models = recent, _ = [KernelRegressor("fourier", **settings) for _ in range(2)]
    found = np.full((2, len(y)), np.nan)
    for model in models:
        model.partial_fit(X[day <= window], y[day <= window])
    for today in range(window + 1, 366):
        new, oldest = day == today, day == today - window
        for model, out in zip(models, found, strict=True):
            if new.any():
                out[new] = model.predict(X[new])
                model.partial_fit(X[new], y[new])
        if oldest.any():
            recent.forget(X[oldest], y[oldest])
    last = day > 365 - window
    again = KernelRegressor("fourier", **settings).fit(X[last], y[last])
    gap = np.abs(again.predict(X) - recent.predict(X)).max()
    print(f"largest difference of the last window from a fit to its rows: {gap:.0e}")
    return found


# %%
# The season moves the temperature, of which the other columns tell little. There the window errs
# less over the year, though not in October and November, which resemble the spring. Late departures
# depend on hour and weather in the same way all year, and both models err alike.
targets = {"temperature": (np.delete(X, 0, axis=1), flights.temp), "late or not": (X, flights.late)}
figure, axes = plt.subplots(1, 2, figsize=(8.5, 3.4), layout="constrained")
for ax, (name, (inputs, y)) in zip(axes, targets.items(), strict=True):
    squares = (predicted(inputs, y.to_numpy(float)) - y.to_numpy(float)) ** 2
    table = pd.DataFrame(squares.T, columns=["last 60 days", "all days"])
    print(name, np.sqrt(table.mean()).round(3).to_dict())
    by_month = np.sqrt(table.groupby(date.dt.month.to_numpy()).mean().dropna())
    by_month.plot(ax=ax, style="o-", title=name, xlabel="month")
    ax.set_ylim(0)
axes[0].set_ylabel("root mean squared error")
plt.show()
