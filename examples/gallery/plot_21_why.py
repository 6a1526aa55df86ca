"""
Why does this flat cost so much?
================================

:func:`~mercer.explain.shapley_values` splits predictions for a raw table into contributions of its
columns. They are exact for the kernel machine that the automatic model chose.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from mercer import AutoKernelRegressor
from mercer.explain import shapley_values
from mercer.plots import ShapleyDisplay

rng = np.random.default_rng(0)
n = 1200
flats = pd.DataFrame(
    {
        "city": rng.choice(["Rome", "Oslo", "Lima", None], n),
        "area": [f"{area:.0f} m²" for area in rng.gamma(9, 9, n)],
        "sold": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 700, n), "D"),
        "door": rng.choice(["red", "blue"], n),
    }
)
area = flats.area.str.removesuffix(" m²").astype(float)
price = area * (1 + (flats.city == "Oslo")) + flats.sold.dt.month + rng.normal(0, 5, n)
model = AutoKernelRegressor(random_state=0).fit(flats[:900], price[:900])

# %%
# The way from the mean price to that of one new flat, column by column:
found = shapley_values(model, flats[900:])
dearest = int(model.predict(flats[900:]).argmax())
ShapleyDisplay(found).waterfall(dearest)
plt.show()

# %%
# The same area is worth twice as much in Oslo; the colour is chosen as the column that explains
# most of what the area alone leaves open:
ShapleyDisplay(found).dependence("area")
plt.show()

# %%
# The mean sizes of the contributions, with intervals; the colour of the door is of no use:
print(pd.DataFrame(found.importances()).round(2).to_string(index=False))
