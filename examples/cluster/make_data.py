"""Writes a folder of Parquet files to try a cluster with: python make_data.py FOLDER [ROWS]."""

import sys
from pathlib import Path

import numpy as np
import pyarrow
from pyarrow import parquet

FILES = 8


def main(folder: str, n_rows: int) -> None:
    """Write rows of six inputs and the column y in eight files of a folder."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    for number in range(FILES):
        rng = np.random.default_rng(number)
        X = rng.uniform(-2, 2, size=(n_rows // FILES, 6))
        y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=len(X))
        columns = {f"x{j}": X[:, j] for j in range(6)} | {"y": y}
        parquet.write_table(pyarrow.table(columns), Path(folder) / f"part-{number}.parquet")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 200_000)
