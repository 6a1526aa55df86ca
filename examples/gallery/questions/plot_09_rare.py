"""
Is the model fair to the rare class?
====================================

Late flights are fewer than one in four. Does a model find them, or does it say "on time" to almost
all? The table has 4800 flights from New York in 2013.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.metrics import recall_score
from sklearn.model_selection import train_test_split

from mercer import AutoKernelClassifier
from mercer.datasets import load

data = load("flights")
flights = data.X.to_pandas()
print(flights.assign(late=data.y).head(4).T.to_string(header=False))
print(pd.Series(data.y).value_counts().to_string())

# %%
# The usual answer is the likelier class. It leaves out most late flights:
past, new, answer, truth = train_test_split(
    flights, data.y == "late", test_size=1200, stratify=data.y, random_state=0
)
model = AutoKernelClassifier(random_state=0).fit(past, answer)
chance = model.predict_proba(new)[:, 1]
print(f'right answers: {model.score(new, truth):.0%}; always "on time": {np.mean(~truth):.0%}')
print(f"late flights found: {recall_score(truth, model.predict(new)):.0%}")

# %%
# Warnings from a smaller chance on find more of them, and concern more flights that are on time:
levels = np.linspace(0.05, 0.6, 56)
found = np.mean(chance[truth] > levels[:, None], axis=1)
warned = np.mean(chance[~truth] > levels[:, None], axis=1)
cost = 100 * (1 - found) * truth.sum() + 20 * warned * (~truth).sum()
figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
axes[0].plot(levels, found, label="late flights found")
axes[0].plot(levels, warned, label="warned, but on time")
axes[0].set(xlabel="warn from this chance on", ylabel="share of the class", ylim=(0, 1))
axes[0].legend()
axes[1].plot(levels, cost / 1000)
axes[1].axvline(20 / 120, color="0.5", linestyle=":")
axes[1].set(xlabel="warn from this chance on", ylabel="cost in thousands", ylim=(0, None))
plt.show()

# %%
# If an unexpected delay costs 100 and a needless warning 20, a warning pays from 20 / 120 on (the
# dotted line). The answer:
warn = chance > 20 / 120
print(
    f"warned from 17 % on: {np.mean(warn[truth]):.0%} of late flights found, "
    f"{np.mean(warn[~truth]):.0%} of the others warned"
)
print(
    f"cost: {100 * (truth & ~warn).sum() + 20 * (warn & ~truth).sum():,} "
    f"instead of {100 * truth.sum():,} without warnings"
)
