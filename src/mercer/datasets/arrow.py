"""PyArrow, which reads columns, and sentences about columns."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence
from typing import Any

from .base import DataError
from .files import Input

SHOWN = 5  # columns named in a message before it says how many more there are


def pyarrow(module: str | None = None) -> Any:
    """PyArrow, or one of its modules."""
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(
            'reading CSV and Parquet files needs PyArrow: pip install "mercer[cli]"'
        ) from error
    return getattr(pyarrow, module) if module else pyarrow


def first_line(error: Exception) -> str:
    """The first line of a message, without its full stop."""
    return str(error).splitlines()[0].rstrip(".")


def is_number(kind: Any) -> bool:
    """Whether a type is one of numbers, booleans or nothing."""
    types = pyarrow().types
    numeric = (types.is_integer, types.is_floating, types.is_decimal)
    return any(is_one(kind) for is_one in (*numeric, types.is_boolean, types.is_null))


def is_text(kind: Any) -> bool:
    """Whether a type is one of texts."""
    types = pyarrow().types
    return types.is_string(kind) or types.is_large_string(kind)


def plain_table(table: Any) -> Any:
    """A table whose columns have the types of data frames, as :func:`plain_column` gives them."""
    for place, field in enumerate(table.schema):
        column = table.column(place)
        plain = plain_column(column)
        if plain is not column:
            table = table.set_column(place, field.with_type(plain.type), plain)
    return table


def plain_column(column: Any) -> Any:
    """A chunked array in a type of its values that all functions of Arrow and of frames take."""
    arrow = pyarrow()
    kind, types = column.type, arrow.types
    if types.is_run_end_encoded(kind):
        return plain_column(pyarrow("compute").run_end_decode(column))
    if types.is_dictionary(kind) and _plain_type(kind.value_type) is not None:
        values = _plain_type(kind.value_type)
        chunks = [
            arrow.DictionaryArray.from_arrays(chunk.indices, chunk.dictionary.cast(values))
            for chunk in column.chunks
        ]
        return arrow.chunked_array(chunks, arrow.dictionary(kind.index_type, values))
    plain = _plain_type(kind)
    # Dates of frames are counted in microseconds: nanoseconds are cut off.
    return column if plain is None else column.cast(plain, safe=False)


def _plain_type(kind: Any) -> Any:
    """The type that a column of another one is cast to; None if it is to stay."""
    arrow = pyarrow()
    types = arrow.types
    if types.is_string_view(kind):
        return arrow.large_string()
    is_bytes = types.is_large_binary(kind) or types.is_fixed_size_binary(kind)
    if types.is_binary_view(kind) or is_bytes:
        return arrow.binary()
    if types.is_null(kind) or (types.is_decimal(kind) and not types.is_decimal128(kind)):
        return arrow.float64()
    if types.is_date64(kind):
        return arrow.timestamp("ms")
    if types.is_timestamp(kind) and kind.unit == "ns":
        return arrow.timestamp("us", kind.tz)
    return None


def refuse_repeated(source: Input, names: Sequence[str], place: str) -> None:
    """Raise if two columns have one name."""
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise DataError(f"{source}: {listed('column name', twice)} more than once in the {place}")


def near(name: str, names: Sequence[str]) -> str:
    """The end of a sentence about an unknown name: similar names, or all."""
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    folded = {other.lower(): other for other in names}
    close = close or [folded[f] for f in difflib.get_close_matches(name.lower(), folded, n=3)]
    if close:
        return f"; did you mean {' or '.join(map(repr, close))}?"
    shown = ", ".join(map(repr, list(names)[:SHOWN]))
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"; it has {shown}{more}"


def listed(noun: str, names: Sequence[str], *, verb: bool = True) -> str:
    """A phrase: "column a is", "columns a, b, ... and 3 more are"; without "is" if not verb."""
    shown = ", ".join(" ".join(name.split()) for name in names[:SHOWN])
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    plural = len(names) > 1
    end = (" are" if plural else " is") if verb else ""
    return f"{noun}{'s' if plural else ''} {shown}{more}{end}"
