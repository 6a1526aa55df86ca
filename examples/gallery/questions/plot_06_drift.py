"""
Has next month's table drifted?
===============================

Do the rows of August differ from those of July, on which a model was fitted?
:func:`~mercer.statistics.mmd_test` compares two raw tables as a whole, without a model of either.
The rows are 400 flights from New York of each month of 2013 and the weather of their hour.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from mercer.datasets import load
from mercer.statistics import mmd_test

data = load("flights")
table = data.X.to_pandas().assign(late=data.y)
month = pd.to_datetime(table.pop("date")).dt.month
old, new = table[month == 7], table[month == 8]
flights = pd.concat([old, new])
print(old.head(3).to_string(index=False))

# %%
# The tables differ. Two random halves of both months together do not, as it should be:
halves = np.random.default_rng(0).permutation(len(flights)) % 2 == 0
print("July and August:", mmd_test(old, new, random_state=0).p_value)
print("random halves:  ", mmd_test(flights[halves], flights[~halves], random_state=0).p_value)

# %%
# Which columns differ? Each is tested alone. With 13 tests the p-values are adjusted by Holm's
# method: the smallest is multiplied by 13, the next by 12 and so on.
tests = {
    name: mmd_test(old[[name]], new[[name]], n_features=50, n_permutations=499, random_state=0)
    for name in flights
}
p_values = pd.Series({name: test.p_value for name, test in tests.items()}).sort_values()
adjusted = (p_values * np.arange(len(p_values), 0, -1)).cummax().clip(upper=1)
distance = pd.Series({name: test.statistics[1] for name, test in tests.items()}).sort_values()

figure, axes = plt.subplots(1, 3, figsize=(10, 3.6), layout="constrained")
colours = np.where(adjusted[distance.index] <= 0.05, "C1", "0.7")
axes[0].barh(distance.index, distance, color=colours)
axes[0].set(xlabel="squared discrepancy", title="orange: adjusted p-value ≤ 0.05")
for ax, name in zip(axes[1:], ("temp", "sched_dep_time"), strict=True):
    edges = np.histogram_bin_edges(flights[name].dropna(), 25)
    ax.hist([old[name], new[name]], edges, color=["0.6", "C1"], label=["July", "August"])
    ax.set(xlabel=name, title=f"adjusted p-value {adjusted[name]:.3f}")
axes[1].set_ylabel("flights")
axes[1].legend()
plt.show()

# %%
# The answer:
changed = adjusted.index[adjusted <= 0.05]
print(f"{len(changed)} of {len(adjusted)} columns differ: {', '.join(changed)}")
print(pd.DataFrame({"p-value": p_values, "adjusted": adjusted}).round(3).to_string())
