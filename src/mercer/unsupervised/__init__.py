"""Kernel methods without targets, on every feature map: components and clusters."""

from mercer.unsupervised.clusters import KernelKMeans, SpectralClustering
from mercer.unsupervised.components import KernelPCA

__all__ = ["KernelKMeans", "KernelPCA", "SpectralClustering"]
