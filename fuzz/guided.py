"""Bytes that reach new lines of the readers, found by atheris (``pip install atheris``).

    python -m fuzz.guided --seconds 600 [--kinds svm,csv,npz] [--out fuzz-faults]

It begins with the sound files of the tests and keeps what a reader neither takes nor refuses in a
sentence with the file's name; exit status 77 if there is such a file.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from inspect import isfunction, ismodule
from pathlib import Path
from types import ModuleType

import atheris

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from _reader_corpus import corpus
from fuzz import judge
from fuzz.files import sound_table
from mercer import datasets
from mercer._runtime import sparse as _sparse

_KINDS = {"svm": ".svm", "csv": ".csv", "npz": ".npz"}  # Parquet is read by Arrow, compiled


def main() -> None:
    """Run until the time is up or a fault is found."""
    options = _options()
    for module in (_sparse, *(value for value in vars(datasets).values() if ismodule(value))):
        _watch(module)
    folder = options.out / "guided"  # libFuzzer ends the process: nothing could tidy up after it
    endings = [_KINDS[kind] for kind in options.kinds.split(",")]
    seeds = folder / "seeds"
    seeds.mkdir(parents=True, exist_ok=True)
    for path in corpus(folder / "sound"):
        if path.suffix in endings:  # the first byte of a case names its kind
            content = bytes([endings.index(path.suffix)]) + path.read_bytes()
            (seeds / path.name).write_bytes(content)

    def attack(case: bytes) -> None:
        if case:
            path = folder / f"case{endings[case[0] % len(endings)]}"
            path.write_bytes(case[1:])
            _read(path)

    arguments = [f"-max_total_time={options.seconds}", f"-artifact_prefix={options.out}/"]
    atheris.Setup([sys.argv[0], *arguments, f"-seed={options.seed + 1}", str(seeds)], attack)
    atheris.Fuzz()


def _watch(module: ModuleType) -> None:
    """Have atheris count the lines that functions of a module reach."""
    for name, value in vars(module).items():
        if isfunction(value) and value.__module__ == module.__name__:
            setattr(module, name, atheris.instrument_func(value))


def _read(path: Path) -> None:
    """Read as numbers, by whatever name the last column has."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", UserWarning)
        try:
            sound_table(datasets.read(path), raw=False)
        except (ValueError, OSError, MemoryError) as error:
            if path.name not in str(error) or len(str(error).splitlines()) > 1:
                raise judge.Wrong(f"no sentence with the file's name: {error}") from error


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", default=",".join(_KINDS))
    parser.add_argument("--out", type=Path, default=Path("fuzz-faults"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
