"""
Why leading directions of random features suffice
=================================================

The spectrum of a smooth kernel falls fast. :class:`~mercer.maps.SubspaceEmbedding` (TEFM) keeps the
leading directions of many random features without ever holding them all.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from mercer.diagnostics import kernel_error
from mercer.kernels import Gaussian
from mercer.maps import RandomFourier, SubspaceEmbedding

X = load_digits().data[:800] / 16.0
gamma = 0.05
K = Gaussian(gamma)(X, X)
exact = np.linalg.eigvalsh(K)[::-1]

random = RandomFourier(gamma=gamma, n_components=100, random_state=0).fit_transform(X)
base = RandomFourier(gamma=gamma, n_components=1600)
tefm = SubspaceEmbedding(base, n_components=100, random_state=0).fit_transform(X)

plt.semilogy(exact[:200], "k", label="the kernel matrix")
for features, name in ((random, "100 random features"), (tefm, "100 of TEFM, from 1600")):
    spectrum = np.linalg.svd(features, compute_uv=False) ** 2
    error = kernel_error(K, features).spectral
    plt.semilogy(spectrum, label=f"{name}: error {error:.3f}")
plt.xlabel("place")
plt.ylabel("eigenvalue")
plt.legend()
plt.show()
