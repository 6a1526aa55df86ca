"""Local kernel machines of 10^5 to 10^7 rows, from memory and from a memory map.

Each fit is a process of its own. Prints, and writes as JSON with ``--record``, the seconds of the
fit, the memory that the process took of its own and the error on rows not seen; then the exponent
of the time in the number of rows. Cuts halve the rows, so that leaves are equally full, and take
equally long, where numbers of rows are powers of two apart.

    python out_of_core.py --rows 156250 1250000 10000000 --max-memory 1GB --peer
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

D, NEW_ROWS, CHUNK = 20, 50_000, 10**6


def friedman(n: int, seed: int, d: int = D) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Friedman's first function of five of d inputs, with noise of deviation 1."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, d), dtype=np.float32)
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2
    return X, y + 10 * X[:, 3] + 5 * X[:, 4] + rng.normal(size=n)


def write(folder: Path, n: int) -> None:
    """Write the rows and targets of n rows, a number of rows at a time."""
    X = np.lib.format.open_memmap(folder / "X.npy", "w+", np.float32, (n, D))
    y = np.lib.format.open_memmap(folder / "y.npy", "w+", np.float64, (n,))
    for seed, first in enumerate(range(0, n, CHUNK)):
        rows = slice(first, min(n, first + CHUNK))
        X[rows], y[rows] = friedman(rows.stop - first, seed)


class Peak:
    """Memory of its own that the process takes at most inside a ``with`` block, in bytes."""

    def __enter__(self) -> Peak:
        from mercer._runtime.machine import held_memory

        self.before, self.bytes, self._done = held_memory(), 0, threading.Event()

        def watch() -> None:
            while not self._done.wait(0.01):
                self.bytes = max(self.bytes, held_memory() - self.before)

        self._thread = threading.Thread(target=watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()


def run(folder: Path, way: str, trees: int, max_memory: str) -> dict[str, float | str]:
    """Fit by one way and tell what it took."""
    import mercer

    X, y = np.load(folder / "X.npy", mmap_mode="r"), np.load(folder / "y.npy")
    if way != "memory map":
        X = np.array(X)
    limit = max_memory if way == "memory map" else None
    if way == "LightGBM":
        from lightgbm import LGBMRegressor

        model = LGBMRegressor(verbose=-1)
    else:
        model = mercer.LocalKernelRegressor(n_trees=trees, random_state=0)
    start, worked = time.perf_counter(), time.process_time()
    with mercer.config_context(max_memory=limit), Peak() as peak:
        model.fit(X, y)
    seconds, worked = time.perf_counter() - start, time.process_time() - worked
    new, truth = friedman(NEW_ROWS, 10**6)
    start = time.perf_counter()
    error = float(np.sqrt(np.mean((model.predict(new) - truth) ** 2)))
    predict = time.perf_counter() - start
    return {
        "way": way,
        "n": len(y),
        "seconds": seconds,
        "processor_seconds": worked,
        "peak_bytes": peak.bytes,
        "error": error,
        "predicted_rows_per_second": NEW_ROWS / predict,
    }


def measured(ways: list[str], sizes: list[int], trees: int, max_memory: str) -> list[dict]:
    """Every way at every size, each in a process of its own."""
    records = []
    for n in sizes:
        with tempfile.TemporaryDirectory() as name:
            write(Path(name), n)
            for way in ways:
                command = [sys.executable, __file__, "--run", name, way, str(trees), max_memory]
                told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
                records.append(json.loads(told.stdout.splitlines()[-1]))
                record = records[-1]
                sys.stdout.write(
                    f"{n:>9} rows, {way}: {record['seconds']:.1f} s "
                    f"({record['processor_seconds']:.1f} s of processors), "
                    f"{record['peak_bytes'] / 2**20:.0f} MB, error {record['error']:.4f}, "
                    f"{record['predicted_rows_per_second']:.0f} rows/s predicted\n"
                )
                sys.stdout.flush()
    return records


def exponent(records: list[dict]) -> float:
    """Slope of the logarithm of time over that of rows."""
    rows, seconds = (np.log([record[name] for record in records]) for name in ("n", "seconds"))
    return float(np.polyfit(rows, seconds, 1)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[156_250, 1_250_000])
    parser.add_argument("--trees", type=int, default=2)
    parser.add_argument("--max-memory", default="1GB", help="of fits from a memory map")
    parser.add_argument("--peer", action="store_true", help="LightGBM with its defaults as well")
    parser.add_argument("--record", type=Path, help="JSON file to write")
    parser.add_argument("--run", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        folder, way, trees, max_memory = options.run
        sys.stdout.write(json.dumps(run(Path(folder), way, int(trees), max_memory)) + "\n")
        return
    ways = ["memory", "memory map", *(["LightGBM"] if options.peer else [])]
    records = measured(ways, options.rows, options.trees, options.max_memory)
    exponents = {}
    for way in ways if len(options.rows) > 1 else []:
        exponents[way] = exponent([record for record in records if record["way"] == way])
        sys.stdout.write(f"{way}: time grows with the power {exponents[way]:.2f} of the rows\n")
    if options.record:
        found = {"trees": options.trees, "max_memory": options.max_memory}
        found |= {"records": records, "exponents": exponents}
        options.record.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
