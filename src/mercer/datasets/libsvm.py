"""Reader of LIBSVM (svmlight) text: ``label [qid:q] index:value index:value ... # comment``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import IO, Any

import numpy as np
from scipy import sparse

from mercer._runtime.sparse import check_shape

from .base import DataError, Table
from .files import Input

_END = np.iinfo(np.int32).max  # the parser counts in int32
_PAIR = re.compile(rb"\d+:\S+$")


def looks_like_libsvm(start: bytes) -> bool:
    """Tell whether the first lines of a text hold ``index:value`` pairs and nothing else."""
    lines = [_content(line).split() for line in start.splitlines()[:50]]
    pairs = [token for line in lines for token in line[1:] if not token.startswith(b"qid:")]
    if not pairs:  # rows without a single feature, or rows of one feature and no label
        pairs = [token for line in lines for token in line[:1] if b":" in token]
    return bool(pairs) and bool(_PAIR.match(pairs[0]))


def read_libsvm(source: Input, n_features: int | None, zero_based: bool | None) -> Table:
    """Read LIBSVM text of at least ``n_features``; ``zero_based`` None: if index 0 occurs."""
    with source.open() as stream:
        lines = _Lines(source, stream)
        X, y = lines.parse()
    if not X.shape[0]:
        raise DataError(f"{source} is empty, there is no row to read")
    _require_finite(source, X.data, X.indptr, "a feature value")
    if lines.labelled:
        _require_finite(source, y, np.arange(len(y) + 1), "a label")
    if zero_based is None:
        zero_based = bool(len(X.indices)) and int(X.indices.min()) == 0
    shift = 0 if zero_based else 1
    if shift and len(X.indices) and not X.indices.min():
        raise DataError(f"{source}: index 0 occurs, so zero_based=False cannot be meant")
    seen = int(X.indices.max()) + 1 - shift if len(X.indices) else 0
    width = seen if n_features is None else n_features
    if width < seen:
        raise DataError(
            f"{source}: n_features={n_features} is smaller than the {seen} features it holds"
        )
    if not width:
        raise DataError(
            f"{source}: no row holds a feature, give n_features to say how many there are"
        )
    check_shape((X.shape[0], width), str(source))
    index_type = np.int32 if max(width, X.nnz) < np.iinfo(np.int32).max else np.int64
    indices, indptr = (
        part.astype(index_type, copy=False) for part in (X.indices - shift, X.indptr)
    )
    X = sparse.csr_array((X.data, indices, indptr), shape=(X.shape[0], width))
    return Table(X, y if lines.labelled else None)


class _Lines:
    """Hand lines to the parser while remembering which one it is at."""

    def __init__(self, source: Input, stream: IO[bytes]) -> None:
        self.source = source
        self.stream = stream
        self.number = 0
        self.line = b""
        self.labelled = True

    def read(self, size: int = -1) -> bytes:
        """Mark this as a file for the parser, which only ever iterates."""
        return self.stream.read(size)

    def __iter__(self) -> Iterator[bytes]:
        first, blank = True, 0
        for line in self.source.lines(self.stream):
            self.number += 1
            self.line = line
            content = _content(line)
            if not content.strip():
                # In a labelled file such a line is no row; without labels it could be one.
                blank = blank or (0 if b"#" in line else self.number)
                continue
            if first:
                first = False
                self.labelled = b":" not in content.split(maxsplit=1)[0]
            if self.labelled:
                yield line
            elif blank:
                raise DataError(
                    f"{self.source}, line {blank}: a blank line is ambiguous in a file without "
                    "labels; give every row a label (0 will do) to keep rows that are all zero"
                )
            else:
                yield b"0 " + content

    def parse(self) -> tuple[Any, np.ndarray]:
        """The CSR matrix of raw indices, and the labels."""
        from sklearn.datasets import load_svmlight_file

        try:
            return load_svmlight_file(self, zero_based=True)
        except DataError:
            raise
        except (ValueError, OverflowError, IndexError) as error:
            reason = _explain(self.line, self.labelled) or str(error)
            raise DataError(f"{self.source}, line {self.number}: {reason}") from None


def _content(line: bytes) -> bytes:
    return line.split(b"#", 1)[0]


def _explain(line: bytes, labelled: bool) -> str | None:
    """Describe the fault of one line."""
    tokens = _content(line).split()
    if labelled:
        label, *tokens = tokens
        if b":" in label:
            return f"the label is missing, the line starts with {_show(label)}"
        if not _is_number(label):
            return f"the label must be one number, got {_show(label)}"
        if tokens and tokens[0].startswith(b"qid:"):
            tokens.pop(0)
    before = -1
    for token in tokens:
        index, colon, value = token.partition(b":")
        if not colon:
            return f"a feature must read index:value, got {_show(token)}"
        if not index.isdigit():
            return f"a feature index must be an integer of at least 0, got {_show(token)}"
        if len(index) > 18 or int(index) >= _END:
            return f"a feature index must be below {_END}, got {_show(token)}"
        if int(index) <= before:
            return f"feature indices must increase within a line, got {int(index)} after {before}"
        if not _is_number(value):
            return f"a feature value must be a number, got {_show(token)}"
        before = int(index)
    return None


def _show(token: bytes) -> str:
    text = token.decode("utf-8", errors="backslashreplace")
    return repr(text if len(text) <= 40 else text[:37] + "...")


def _is_number(token: bytes) -> bool:
    try:
        float(token)
    except ValueError:
        return False
    return True


def _require_finite(source: Input, values: np.ndarray, ends: np.ndarray, what: str) -> None:
    """Raise on NaN and infinity, naming the line of the first; `ends` delimit the rows."""
    bad = np.flatnonzero(~np.isfinite(values))
    if not len(bad):
        return
    row = int(np.searchsorted(ends, bad[0], side="right")) - 1
    with source.open() as stream:
        numbers = (i for i, line in enumerate(stream, 1) if _content(line).strip())
        # The file may have changed since.
        line = next((number for k, number in enumerate(numbers) if k == row), row + 1)
    raise DataError(
        f"{source}, line {line}: {what} must be finite, got {values[bad[0]]} "
        f"({len(bad)} of them in the file)"
    )
