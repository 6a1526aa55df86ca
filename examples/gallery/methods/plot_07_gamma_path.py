"""
γ along a path
==============

``gamma_path`` tries scales of the kernel on the same held-out rows and the same random numbers, so
that the curve is smooth and the comparison fair. Then the best one is fitted to all rows.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelClassifier
from mercer.datasets import load
from mercer.plots import PathDisplay

letter = load("letter")
model = KernelClassifier(
    "fourier", n_components=400, gamma_path=np.geomspace(0.003, 1, 9), random_state=0
).fit(letter.X[:4000], letter.y[:4000])

display = PathDisplay.from_estimator(model, parameter="gamma")
plt.title(f"{model.score(letter.X_test, letter.y_test):.1%} of the test letters are right")
plt.show()
