"""
How far maps are from their kernel
==================================

More features come nearer to the kernel matrix, at different rates: random features by the root of
their number, landmarks faster where the spectrum falls fast.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

from mercer.maps import Nystroem, RandomFourier
from mercer.plots import KernelErrorDisplay

X = load_digits().data[:600] / 16.0
figure, ax = plt.subplots()
sizes = (16, 32, 64, 128, 256)
for feature_map, name in (
    (RandomFourier(gamma=0.1, random_state=0), "Fourier"),
    (RandomFourier(gamma=0.1, sampling="orthogonal", random_state=0), "Fourier, orthogonal"),
    (Nystroem(gamma=0.1, random_state=0), "Nyström"),
    (Nystroem(gamma=0.1, landmarks="rpcholesky", random_state=0), "Nyström, pivoted Cholesky"),
):
    KernelErrorDisplay.from_estimator(feature_map, X, n_components=sizes, name=name, ax=ax)
plt.show()
