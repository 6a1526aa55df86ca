"""
A model of kilobytes
====================

A sparse machine keeps places in an endless random sequence and their weights; the random numbers
themselves are made again from the seed. Its file stays small however many features were drawn.
"""

import matplotlib.pyplot as plt

from mercer import SparseKernelClassifier
from mercer.datasets import load

letter = load("letter")
is_z, test_is_z = letter.y[:5000] == 26, letter.y_test == 26
model = SparseKernelClassifier("binning", n_new=32, max_rounds=8, random_state=0)
model.fit(letter.X[:5000], is_z)

rounds = model.rounds_
plt.plot(rounds["n_drawn"], rounds["n_active"], "o-")
plt.ylim(0, None)
plt.xlabel("grids drawn")
plt.ylabel("bins with a weight")
plt.title(f"test accuracy {model.score(letter.X_test, test_is_z):.4f}")
plt.show()
