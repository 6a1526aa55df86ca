"""Kernel methods without targets, on every feature map: components, clusters, outliers."""

from mercer.unsupervised.clusters import KernelKMeans, SpectralClustering
from mercer.unsupervised.components import KernelPCA
from mercer.unsupervised.outliers import OneClassKernel

__all__ = ["KernelKMeans", "KernelPCA", "OneClassKernel", "SpectralClustering"]
