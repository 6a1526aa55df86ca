"""
Which rows look wrong?
======================

Which rows of a table should somebody look at first? A list of 1500 flats has 30 wrong rows: areas
in square feet, prices in thousands, and years of the wrong century. No mark shows them.
:class:`~mercer.unsupervised.OneClassKernel` behind :class:`~mercer.TablePreparer` ranks rows by how
few others are near.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.ensemble import IsolationForest

from mercer import TablePreparer
from mercer.unsupervised import OneClassKernel

rng = np.random.default_rng(0)
n = 1500
city = rng.choice(["Rome", "Oslo", "Lima", "Bern"], n)
area = rng.gamma(9, 9, n).round()
built = pd.Series(rng.integers(1890, 2024, n))
price = 1000 * (area * np.where(city == "Oslo", 8, 5) + rng.normal(0, 30, n) + 60).round()
flats = pd.DataFrame({"city": city, "area": area, "built": built, "price": price})
wrong = rng.choice(n, 30, replace=False)
flats.loc[wrong[:10], "area"] *= 10.76
flats.loc[wrong[10:20], "price"] /= 1000
flats.loc[wrong[20:], "built"] -= 200
print(flats.head(4).to_string(index=False))

# %%
# The machine sees no mark of the wrong rows. With ``nu=0.1`` a tenth of the rows shapes the border,
# which ranks the rows beyond it better than a few would. Most of the 30 smallest scores are
# those of wrong rows; :class:`sklearn.ensemble.IsolationForest` looks at one column at a time:
X = TablePreparer().fit_transform(flats)
scores = {
    "one-class kernel": OneClassKernel(0.1, feature_map="nystroem", random_state=0)
    .fit(X)
    .score_samples(X),
    "isolation forest": IsolationForest(random_state=0).fit(X).score_samples(X),
}
kind = np.full(n, "right", dtype=object)
kind[wrong] = np.repeat(["square feet", "thousands", "wrong century"], 10)
for name, values in scores.items():
    print(f"{name}: {(kind[values.argsort()[:30]] != 'right').sum()} of the 30 are wrong")

# %%
# Wrong areas and prices lie apart from the cloud of area and price. Years are on neither axis:
found = scores["one-class kernel"].argsort()[:30]
figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
looks = {"right": "0.7", "square feet": "C1", "thousands": "C3", "wrong century": "C0"}
for name, colour in looks.items():
    chosen = kind == name
    axes[0].scatter(flats.area[chosen], flats.price[chosen], s=9, color=colour, label=name)
axes[0].scatter(*flats.loc[found, ["area", "price"]].T.values, s=60, fc="none", ec="k")
axes[0].set(xlabel="area", ylabel="price", xscale="log", yscale="log", title="circled: found")
axes[0].legend()
values = [scores["one-class kernel"][kind == name] for name in looks]
axes[1].hist(values, 40, stacked=True, color=list(looks.values()))
axes[1].set(xlabel="score", ylabel="rows", ylim=(0, 20), title="bars above 20 rows are cut")
plt.show()

# %%
# The answer is a list to look at, the most unusual rows first:
print(flats.loc[found[:6]].to_string())
print(f"{np.mean(kind[found] != 'right'):.0%} of the first 30 are wrong")
