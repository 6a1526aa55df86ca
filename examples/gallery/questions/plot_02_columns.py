"""
Which columns matter?
=====================

Which columns of a table make a flat expensive, and why is one flat so expensive? The rows are
generated flats, with words, dates, numbers and missing cells.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from mercer import AutoKernelRegressor
from mercer.datasets import load
from mercer.explain import shapley_values
from mercer.plots import ShapleyDisplay

data = load("flats")
flats = data.X.to_pandas()
print(flats.assign(price=data.y).head(4).to_string(index=False))

# %%
# :func:`~mercer.explain.shapley_values` splits every prediction into contributions of the columns.
# The model predicts the logarithm of the price, so that contributions are factors. Their mean
# sizes, with 95 % intervals, say which columns matter:
model = AutoKernelRegressor(random_state=0).fit(flats[:360], data.y[:360])
found = shapley_values(model, flats[360:])
ShapleyDisplay(found).bar()
plt.show()

# %%
# From the mean prediction to that of the most expensive new flat, column by column:
dearest = int(model.predict(flats[360:]).argmax())
ShapleyDisplay(found).waterfall(dearest)
plt.show()

# %%
# The answer:
sizes = pd.DataFrame(found.importances()).set_index("column")["importance"]
for column in sizes.index[[0, 1, -1]]:
    print(f"{column} moves prices by a factor of {np.exp(sizes[column]):.2f} in the mean")
print(f"{' and '.join(sizes.index[:2])}: {sizes[:2].sum() / sizes.sum():.0%} of all contributions")
print(f"R² on the 120 new flats: {model.score(flats[360:], data.y[360:]):.3f}")
