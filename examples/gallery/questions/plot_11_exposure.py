"""
How many flights will be late?
==============================

An airport counts the late flights of each week and airport of departure. Weeks with more flights
have more late ones: the number of flights is the *exposure* of a count. The table has 4800 flights
from New York in 2013.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.metrics import mean_poisson_deviance

from mercer import KernelRegressor
from mercer.datasets import load

data = load("flights")
flights = data.X.to_pandas().assign(late=data.y == "late")
flights["week"] = pd.to_datetime(flights.date).dt.isocalendar().week.astype(int)
flights["airport"] = flights.origin.astype("category").cat.codes
weeks = flights.groupby(["week", "airport"]).agg(
    flights=("late", "size"), late=("late", "sum"), wind=("wind_speed", "mean"),
    humid=("humid", "mean"), visib=("visib", "mean"),
)  # fmt: skip
weeks = weeks.dropna().reset_index()
print(weeks.head(4).to_string(index=False))

# %%
# A mean exp(u) of the loss "poisson" times the number of flights is exp(u + log flights). So the
# logarithm of an exposure is an *offset*: a known part of the response, which ``fit`` and
# ``predict`` take beside the inputs. Three weeks of four are fitted:
inputs = ["week", "airport", "wind", "humid", "visib"]
new = (weeks.week % 4 == 0).to_numpy()
fitted, rest = weeks[~new], weeks[new]
settings = {"loss": "poisson", "alphas": np.logspace(-3, 1, 9), "random_state": 0}
model = KernelRegressor("exact", **settings)
model.fit(fitted[inputs], fitted.late, offset=np.log(fitted.flights))

# %%
# With an offset of 0 ``predict`` answers with the share of late flights, with that of the row with
# their number:
share = model.predict(rest[inputs], offset=0)
counts = model.predict(rest[inputs], offset=np.log(rest.flights))
shown = rest[["week", "airport", "flights", "late"]]
print(shown.assign(share=share.round(2), expected=counts.round(1)).head(5).to_string(index=False))

# %%
# Twice the flights are twice the late ones, whatever was learned. A model of the counts alone does
# not know of that, and the share of all weeks knows of nothing else:
alone = KernelRegressor("exact", **settings).fit(fitted[inputs], fitted.late)
deviances = {
    "share of all weeks": rest.flights * fitted.late.sum() / fitted.flights.sum(),
    "counts alone": alone.predict(rest[inputs]),
    "with exposures": counts,
}
deviances = {name: mean_poisson_deviance(rest.late, mean) for name, mean in deviances.items()}
figure, ax = plt.subplots(layout="constrained")
ax.barh(list(deviances), list(deviances.values()), color=["0.7", "0.7", "C0"])
ax.set(xlabel="mean deviance of the weeks that were left out; less is better")
plt.show()

# %%
# The same on the command line, which takes the logarithms itself:
#
# .. code-block:: console
#
#    $ mercer fit weeks.csv --target late --exposure flights --loss poisson --out late.skops
#    $ mercer predict late.skops next.csv --out expected.csv
least = min(deviances, key=deviances.get)
print(", ".join(f"{name}: {value:.2f}" for name, value in deviances.items()))
print(f"The weeks left out are told best by the model {least}.")
