"""
Can I trust the probability?
============================

If a model gives ten flights a chance of 30 %, are three of them late? The table has 4800 flights
from New York in 2013.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from mercer import AutoKernelClassifier
from mercer.datasets import load
from mercer.plots import CalibrationDisplay

data = load("flights")
flights, late = data.X.to_pandas(), data.y == "late"
print(flights.assign(late=late).head(4).T.to_string(header=False))

# %%
# Two checks: other flights of the same months, and flights of the months after them.
month = pd.to_datetime(flights.date).dt.month.to_numpy()
past = month <= 9
fitted, same = train_test_split(np.flatnonzero(past), stratify=late[past], random_state=0)
model = AutoKernelClassifier(random_state=0).fit(flights.iloc[fitted], late[fitted])
chance = model.predict_proba(flights)[:, 1]

figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
CalibrationDisplay.from_predictions(late[same], chance[same], ax=axes[0])
axes[0].set(title="the same months", xlabel="predicted chance", ylabel="share that was late")
expected = [chance[month == number].sum() for number in (10, 11, 12)]
came = [late[month == number].sum() for number in (10, 11, 12)]
axes[1].bar(np.arange(3) - 0.2, expected, 0.4, color="0.7", label="expected: sum of chances")
axes[1].bar(np.arange(3) + 0.2, came, 0.4, color="C0", label="came")
axes[1].set_xticks(range(3), ["October", "November", "December"])
axes[1].set(title="later months", ylabel="late flights of 400")
axes[1].legend()
plt.show()

# %%
# The answer: within the months of the fit, yes, but for chance (±). Later, only if the months are
# like those before, and no row of the past can tell that:
chances = chance[same]
spread = np.sqrt(np.sum(chances * (1 - chances)))
print(f"same months: {chances.sum():.0f} ± {spread:.0f} expected, {late[same].sum()} came")
for name, e, c in zip(("October", "November", "December"), expected, came, strict=True):
    print(f"{name}: {e:.0f} expected, {c} came")
