"""
Rows as they come
=================

:class:`~mercer.DoublySGDClassifier` learns from one batch after the other, with random features
that are computed for each batch and not stored.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import DoublySGDClassifier
from mercer.datasets import load

letter = load("letter")
classes = np.unique(letter.y)
model = DoublySGDClassifier(gamma=0.1, random_state=0)

seen, scores = [], []
for start in range(0, 12000, 1000):
    rows = slice(start, start + 1000)
    model.partial_fit(letter.X[rows], letter.y[rows], classes=classes)
    seen.append(start + 1000)
    scores.append(model.score(letter.X_test[:2000], letter.y_test[:2000]))
plt.plot(seen, scores, "o-")
plt.xlabel("rows seen")
plt.ylabel("accuracy on 2000 test rows")
plt.show()
