"""One small valid file of every kind that the readers take: seeds for damaged ones."""

from __future__ import annotations

import bz2
import gzip
import lzma
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import sparse

_SVM = b"1 1:0.5 3:2\n-1 2:1 # a comment\n1 qid:3 1:4e-1 4:1\n-1 3:1.5\n"
_UNLABELLED = b"1:0.5 3:2\n2:1\n4:1\n"
_FROM_ZERO = b"2 0:1 2:3\n5 1:1\n"
_CSV = b'age,height,"kind, said",n\n30,1.5,"a ""cat""",1\n40,1.75,dog,2\n,2,cat,3\n'
_NUMBERS = b"1.5,2,0\n-3,4e2,1\n0.25,6,1\n"
_SEMICOLONS = b"\xef\xbb\xbfa;b;y\r\n1;2;no\r\n3;4;yes\r\n"
_TABS = b"a\tb\n1\t2\n3\t4\n"


def corpus(folder: Path) -> list[Path]:
    """Write the files into ``folder`` and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        "labelled.svm": _SVM,
        "unlabelled.svm": _UNLABELLED,
        "from-zero.txt": _FROM_ZERO,
        "table.csv": _CSV,
        "numbers.csv": _NUMBERS,
        "semicolons.csv": _SEMICOLONS,
        "tabs.tsv": _TABS,
        "labelled.svm.gz": gzip.compress(_SVM, mtime=0),
        "labelled.svm.bz2": bz2.compress(_SVM),
        "labelled.svm.xz": lzma.compress(_SVM),
        "table.csv.gz": gzip.compress(_CSV, mtime=0),
    }
    for name, content in texts.items():
        (folder / name).write_bytes(content)
    _write_arrays(folder)
    _write_parquet(folder)
    return sorted(folder.iterdir())


def _write_arrays(folder: Path) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(6, 3)), np.arange(6)
    names = np.array(["a", "b", "c"])
    np.savez(folder / "dense.npz", X=X, y=y, feature_names=names)
    np.savez_compressed(folder / "parts.npz", X_train=X, y_train=y, X_test=X[:2], y_test=y[:2])
    S = sparse.csr_array(X * (X > 0))
    triple = {"data": S.data, "indices": S.indices, "indptr": S.indptr, "shape": S.shape}
    np.savez(folder / "csr.npz", y=y, **triple)
    sparse.save_npz(folder / "scipy-csr.npz", S)
    sparse.save_npz(folder / "scipy-csc.npz", sparse.csc_array(S))


def _write_parquet(folder: Path) -> None:
    table = pd.DataFrame(
        {
            "x": [1.0, 2.5, -3.0],
            "k": pd.array([1, 2, 3], dtype="int8"),
            "flag": [True, False, True],
            "name": ["red", "blue", "red"],
            "kind": pd.Categorical(["u", "v", "u"]),
            "day": pd.to_datetime(["2020-01-01", "2021-06-30", None]),
        }
    )
    table.to_parquet(folder / "table.parquet", index=False)
    table[["x", "k", "flag"]].to_parquet(folder / "numbers.parquet", compression="gzip")
