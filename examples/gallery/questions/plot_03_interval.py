"""
How sure is this prediction?
============================

How far can the price of a flat be from the predicted one? An interval says so for each row. The
rows are generated flats.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import AutoKernelRegressor
from mercer.datasets import load

data = load("flats")
print(data.X.to_pandas().assign(price=data.y).head(4).to_string(index=False))

# %%
# Intervals of :class:`~mercer.AutoKernelRegressor` are calibrated on held-out rows: nine prices of
# ten shall lie within, and rows with larger errors get wider intervals.
parts = data.split()  # 360 flats to fit, 120 new ones
new, price = parts.X_test, parts.y_test
model = AutoKernelRegressor(random_state=0).fit(parts.X_train, parts.y_train)
predicted = model.predict(new)
low, high = model.predict_interval(new, coverage=0.9).T
inside = (low <= price) & (price <= high)

# %%
# Left: every second new flat, by its predicted price. Right: widths of all intervals.
order = predicted.argsort()[::2]
figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), width_ratios=[2, 1], layout="constrained")
place = np.arange(len(order))
axes[0].vlines(place, low[order] / 1e3, high[order] / 1e3, color="0.75", linewidth=4)
for name, chosen, colour in (("inside", inside, "C0"), ("outside", ~inside, "C3")):
    marked = chosen[order]
    axes[0].plot(place[marked], price[order][marked] / 1e3, ".", color=colour, label=name)
axes[0].set(xlabel="new flats, from cheap to expensive", ylabel="price in thousands", xticks=[])
axes[0].legend(title="true price")
axes[1].plot(predicted / 1e3, (high - low) / 1e3, ".", color="0.4")
axes[1].set(xlabel="predicted price in thousands", ylabel="width in thousands", ylim=(0, None))
plt.show()

# %%
# The answer:
widths = (high - low)[predicted.argsort()]
print(f"first new flat: {low[0]:,.0f} to {high[0]:,.0f}; its price was {price[0]:,.0f}")
print(f"{inside.mean():.0%} of {len(new)} new prices lie in intervals meant for 90 %")
print(
    f"half a width: {widths[:40].mean() / 2:,.0f} for the 40 cheapest flats, "
    f"{widths[-40:].mean() / 2:,.0f} for the 40 most expensive"
)
