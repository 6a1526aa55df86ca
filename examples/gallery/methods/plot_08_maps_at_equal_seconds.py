"""
Maps at equal seconds
=====================

Which map gives most for its time? Each is run at several sizes; the curve that is further up and to
the left wins. Every map sees the same rows, γ and penalty, with its own kernel.
"""

import time

import matplotlib.pyplot as plt

from mercer import KernelClassifier
from mercer.datasets import load

letter = load("letter")
X, y = letter.X[:5000], letter.y[:5000]
sizes = {"binning": (16, 64, 256), "fourier": (128, 512, 1024), "nystroem": (128, 512, 1024)}

for name, numbers in sizes.items():
    seconds, scores = [], []
    for number in numbers:
        model = KernelClassifier(name, n_components=number, gamma=0.15, random_state=0)
        start = time.perf_counter()
        model.fit(X, y)
        seconds.append(time.perf_counter() - start)
        scores.append(model.score(letter.X_test, letter.y_test))
    plt.plot(seconds, scores, "o-", label=name)
plt.xlabel("seconds to fit")
plt.ylabel("accuracy on 5000 test letters")
plt.legend()
plt.show()

# %%
# Times depend on the machine, and one run says little about close calls: ``mercer compare`` chooses
# γ and the penalty for each method and repeats short runs.
