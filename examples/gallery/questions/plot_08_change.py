"""
What would have to change?
==========================

A flight is likely to be late. Which other departure would be likely to be on time? The table has
4800 flights from New York in 2013.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from mercer import AutoKernelClassifier
from mercer.datasets import load

data = load("flights")
flights = data.X.to_pandas()
print(flights.assign(late=data.y).head(4).T.to_string(header=False))

# %%
# The flight with the largest chance among 300 that are not fitted:
new = np.random.default_rng(0).permutation(len(flights)) < 300
model = AutoKernelClassifier(random_state=0).fit(flights[~new], data.y[~new])
late = list(model.classes_).index("late")
chances = model.predict_proba(flights[new])[:, late]
flight = flights[new].iloc[[chances.argmax()]]
print(flight.iloc[0].to_string())

# %%
# A passenger can change the hour and the airport, not the weather. All their combinations, the rest
# of the row as it is:
hours, airports = np.arange(6, 22), ["EWR", "JFK", "LGA"]
choices = pd.concat([flight] * (len(hours) * 3), ignore_index=True)
choices["sched_dep_time"] = np.repeat(hours * 100.0, 3)
choices["origin"] = airports * len(hours)
chance = model.predict_proba(choices)[:, late].reshape(len(hours), 3)

figure, ax = plt.subplots()
ax.plot(hours, chance, "o-", label=airports)
actual = flight.sched_dep_time.item() // 100 + flight.sched_dep_time.item() % 100 / 60
ax.plot(actual, chances.max(), "k*", markersize=13, label="the flight")
ax.set(xlabel="planned hour of departure", ylabel="chance of being late", ylim=(0, None))
ax.legend()
plt.show()

# %%
# The answer compares flights with each other. A flight that is moved to another hour may keep the
# causes of its delay:
best = np.unravel_index(chance.argmin(), chance.shape)
print(f"as planned, from {flight.origin.item()}: {chances.max():.0%}")
print(f"smallest chance: {chance[best]:.0%}, at {hours[best[0]]}:00 from {airports[best[1]]}")
print(f"another airport at the same hour changes it by at most {np.ptp(chance, axis=1).max():.0%}")
