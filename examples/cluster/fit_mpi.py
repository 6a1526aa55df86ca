"""Fits on the ranks of an MPI job: mpiexec -n 4 python fit_mpi.py FOLDER."""

import sys

from mercer import KernelRegressor, mpi, persistence


def main(folder: str) -> None:
    """Rank 0 does this; what a fit asks of the rows, all ranks do."""
    model = KernelRegressor("fourier", n_components=1024, random_state=0)
    mpi.fit(model, folder, "y")
    persistence.save(model, "model.skops", task="regression", target="y")


if __name__ == "__main__":
    mpi.run(main, sys.argv[1])
