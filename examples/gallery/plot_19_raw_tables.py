"""
A raw table, and what was chosen for it
=======================================

:class:`~mercer.AutoKernelRegressor` takes strings, dates and gaps as they are. Its search is a
table, and a figure.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from mercer import AutoKernelRegressor
from mercer.plots import ImportanceDisplay

rng = np.random.default_rng(0)
n = 1200
flats = pd.DataFrame(
    {
        "city": rng.choice(["Rome", "Oslo", "Lima", None], n),
        "area": rng.gamma(9, 9, n).round(),
        "sold": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 700, n), "D"),
        "door": rng.choice(["red", "blue"], n),
    }
)
price = flats.area * (1 + (flats.city == "Oslo")) + flats.sold.dt.month + rng.normal(0, 5, n)
model = AutoKernelRegressor(random_state=0).fit(flats[:900], price[:900])

ImportanceDisplay.from_estimator(model, flats[900:], price[900:], random_state=0)
plt.title(f"R² {model.score(flats[900:], price[900:]):.3f} on 300 new flats")
plt.show()

# %%
# What every column was read as:
print(pd.DataFrame(model.columns_).to_string(index=False, max_colwidth=40))
