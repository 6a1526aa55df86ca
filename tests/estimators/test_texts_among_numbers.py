"""Texts among numbers, which estimators of numbers refuse and name."""

import numpy as np
import pandas as pd
import pytest

from mercer import DualKernelSVC, KernelRegressor, datasets
from mercer.unsupervised import OneClassKernel

SENTENCE = r"^X must hold numbers; could not convert string to float: 'abc' in row 7 of column "


def rows():
    X = np.random.default_rng(0).uniform(size=(40, 2)).astype(object)
    X[7, 1] = "abc"
    return X


@pytest.mark.parametrize("model", [KernelRegressor(), DualKernelSVC(), OneClassKernel()])
@pytest.mark.parametrize(
    "form", [lambda X: (X, "1"), lambda X: (pd.DataFrame(X, columns=["a", "b"]), "'b'")]
)
def test_a_text_is_named_with_its_row_and_column_at_fit_and_predict(model, form):
    X, place = form(rows())
    y = np.arange(40) % 2
    with pytest.raises(ValueError, match=rf"{SENTENCE}{place}\. make_pipeline"):
        model.fit(X, y)
    numbers, _ = form(np.random.default_rng(0).uniform(size=(40, 2)))
    model.fit(numbers, y)
    with pytest.raises(ValueError, match=rf"{SENTENCE}{place}\. make_pipeline"):
        model.predict(X)


@pytest.mark.parametrize("block", [40, 1 << 24])
def test_a_text_in_a_column_of_a_file_is_named(tmp_path, monkeypatch, block):
    monkeypatch.setattr(datasets.csv_text, "_BLOCK", block)
    rows = "\n".join(f"{i},{i}.5" for i in range(20))
    (tmp_path / "t.csv").write_text(f"a,b\n{rows}\n3,abc\n")
    with pytest.raises(datasets.DataError, match=r"column b.*[rR]ow #?2[12]\b.*'abc'"):
        datasets.read(tmp_path / "t.csv")
