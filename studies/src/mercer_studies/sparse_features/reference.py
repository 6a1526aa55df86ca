"""The authors' numbers: Tables 1 and 2 of the paper, cell by cell, in the shape of our records."""

from __future__ import annotations

from typing import Any

from mercer_studies.sparse_features.grid import FAMILIES, METHODS, table_of

_SETS = {
    "CPU": (1, 6554, 819, 21),
    "Census": (1, 18_186, 2273, 119),
    "YearPred": (1, 463_715, 51_630, 90),
    "Cod-RNA": (2, 59_535, 10_000, 8),
    "IJCNN": (2, 127_591, 14_100, 22),
    "Covtype": (2, 464_810, 116_202, 54),
}
"""The number of the table, training rows, test rows and inputs."""

_CELLS = """
CPU      gaussian   Kernel      6554 0.038   154  2.59  1.36
CPU      gaussian   RF         10000 0.037   875     6  4.71
CPU      gaussian   Sparse-RF     57 0.032    22  0.04 0.069
CPU      laplacian  Kernel      6554 0.034   157  3.13  1.35
CPU      laplacian  RF         10000 0.035   803  6.99  4.71
CPU      laplacian  Sparse-RF    289 0.027    43  0.18 0.095
CPU      perceptron Kernel      6554 0.026   151  2.48  1.36
CPU      perceptron RF         10000 0.038   776  6.37  4.71
CPU      perceptron Sparse-RF    251 0.027    27  0.13  0.09
Census   gaussian   Kernel     18186 0.029  2719    74    10
Census   gaussian   RF         10000 0.032  1615    80   8.2
Census   gaussian   Sparse-RF   1174  0.03   229   8.6  0.55
Census   laplacian  Kernel     18186 0.146  3268    68    10
Census   laplacian  RF         10000 0.168  1633    88   8.2
Census   laplacian  Sparse-RF   5269 0.179   225    38   1.7
Census   perceptron Kernel     18186  0.01  2674 67.45    10
Census   perceptron RF         10000 0.016  1587    76   8.2
Census   perceptron Sparse-RF    976 0.016   185   6.7  0.49
YearPred gaussian   RF          5000 0.103  7697   697  76.7
YearPred gaussian   Sparse-RF   1865 0.104  1618    97  45.6
YearPred laplacian  RF          5000 0.286  9417   715  76.6
YearPred laplacian  Sparse-RF   3739 0.273  1453   209  54.3
YearPred perceptron RF          5000 0.105  8636   688  76.7
YearPred perceptron Sparse-RF    896 0.105   680    51  38.1
Cod-RNA  gaussian   Kernel     14762 0.966    95    15   3.8
Cod-RNA  gaussian   RF         10000 0.964   214    56   9.5
Cod-RNA  gaussian   Sparse-RF    180 0.964   180  0.61  0.66
Cod-RNA  laplacian  Kernel     13769 0.971    89    15   3.6
Cod-RNA  laplacian  RF         10000 0.969   290    46   9.6
Cod-RNA  laplacian  Sparse-RF   1195  0.97   137  6.41   1.8
Cod-RNA  perceptron Kernel     15201 0.967 57.34  7.01   3.6
Cod-RNA  perceptron RF         10000 0.964   197  71.9   9.6
Cod-RNA  perceptron Sparse-RF   1148 0.963   131  3.81   1.4
IJCNN    gaussian   Kernel     16888 0.991   636    34    12
IJCNN    gaussian   RF         10000 0.989   601    88    20
IJCNN    gaussian   Sparse-RF   1392 0.989   292    11   7.5
IJCNN    laplacian  Kernel     16761 0.995   988    34    12
IJCNN    laplacian  RF         10000 0.992   379    86    20
IJCNN    laplacian  Sparse-RF   2508 0.992   566    25   9.9
IJCNN    perceptron Kernel     26563 0.991   634    16    11
IJCNN    perceptron RF         10000 0.987   381    77    20
IJCNN    perceptron Sparse-RF   1530 0.988   490    11   7.8
Covtype  gaussian   Kernel    335606 0.849 74891  3012  78.5
Covtype  gaussian   RF         10000 0.829  9909   735  74.7
Covtype  gaussian   Sparse-RF   3421 0.836  6273   132  28.1
Covtype  laplacian  Kernel    224373 0.954 64172  2004  80.8
Covtype  laplacian  RF         10000 0.888 10170   635  74.6
Covtype  laplacian  Sparse-RF   3141 0.869  2788   175  56.5
Covtype  perceptron Kernel    358174 0.905 79010  1774  80.5
Covtype  perceptron RF         10000 0.835  6969   664  74.7
Covtype  perceptron Sparse-RF   1401 0.836  1706    70  44.4
"""
"""Model size, RMSE or accuracy, seconds of training and of prediction, gigabytes in training."""


def published() -> list[dict[str, Any]]:
    """Every cell that the authors ran, as a record.

    With ``data``, ``method``, ``model_size``, ``score``, ``seconds`` and ``memory`` as in our
    records; ``protocol`` is ``"published"``. What they call RMSE stands as the relative error. Yen,
    Lin, Lin, Ravikumar and Dhillon, Sparse random features algorithm as coordinate descent in
    Hilbert space, NIPS 2014, Tables 1 and 2.
    """
    families = {label: family for family, label in FAMILIES.items()}
    found = []
    for line in _CELLS.strip().splitlines():
        name, kernel, label, *cell = line.split()
        found.append(_record(name, kernel, families[label], list(map(float, cell))))
    return found


def _record(name: str, kernel: str, family: str, cell: list[float]) -> dict[str, Any]:
    table, n_train, n_test, d = _SETS[name]
    size, score, fit, predict, memory = cell
    method = f"{family}-{kernel}"
    return {
        "protocol": "published",
        "figures": [table_of(table)],
        "data": {
            "name": name,
            "paper_name": name,
            "task": "regression" if table == 1 else "classification",
            "kind": "whole",
            "n_train": n_train,
            "n_test": n_test,
            "d": d,
        },
        "family": family,
        "kernel": kernel,
        "method": method,
        "label": METHODS[method],
        "size": None,
        "lam_n": None,
        "seed": 0,
        "model_size": int(size),
        "score": {"test": {"relative_rmse" if table == 1 else "accuracy": score}},
        "seconds": {"fit": fit, "predict": predict},
        "memory": {"added": 1e9 * memory},
    }
