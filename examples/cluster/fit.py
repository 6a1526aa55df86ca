"""Fits on a Dask cluster: python fit.py tcp://127.0.0.1:8786 FOLDER."""

import sys

from distributed import Client

from mercer import persistence
from mercer.dask import KernelRegressor

if __name__ == "__main__":
    with Client(sys.argv[1]) as client:
        model = KernelRegressor("fourier", n_components=1024, random_state=0, client=client)
        model.fit(sys.argv[2], "y")
        persistence.save(model.to_local(), "model.skops", task="regression", target="y")
