"""The data sets known by name, as ``data/registry.toml`` tells of them."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote_plus, urlsplit

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class File:
    """A file as its public home hands it out.

    `sha256` is None where the home publishes none and no copy was at hand: the hash of the first
    fetch is then recorded and every later use must match it. `members` are patterns of what to
    read inside a zip archive; their rows are stacked in the order of the names.
    """

    url: str
    sha256: str | None = None
    members: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """File name in the cache and in the folder of MERCER_DATA."""
        return unquote_plus(urlsplit(self.url).path.rsplit("/", 1)[-1]).replace(" ", "_")


@dataclass(frozen=True)
class Prepared:
    """An NPZ file that holds all of a set, looked up by name in the folder of MERCER_DATA."""

    name: str
    sha256: str | None = None


@dataclass(frozen=True)
class Entry:
    """Facts about one set; `train` and `test` are empty where nothing can be fetched."""

    name: str
    task: str
    n_features: int
    n_train: int | None
    n_test: int | None
    source: str
    licence: str
    note: str = ""
    train: File | None = None
    test: File | None = None
    prepared: Prepared | None = None
    shipped: bool = False
    target: str | None = None  # column to predict, of a set that is shipped as a CSV file
    sparse: bool = False
    is_sample: bool = False
    stand_in_for: str | None = None
    is_series: bool = False
    # Of a table that is read whole: the columns (from, to) of the features, and of the target.
    features: tuple[int, int] = (0, -1)
    targets: tuple[int, ...] = (-1,)
    # Which columns of a many-column y of a prepared file are the target.
    y_columns: tuple[int, ...] | None = None

    @property
    def table(self) -> Path | None:
        """The CSV file with named columns that is the whole set, if it is shipped as one."""
        return None if self.target is None else DATA / f"{self.name}.csv"

    @property
    def files(self) -> tuple[File, ...]:
        """Files of the public home, each once."""
        return tuple(dict.fromkeys(file for file in (self.train, self.test) if file))


def _value(key: str, value: Any) -> Any:
    """A value of the file in the type of an entry's field."""
    if isinstance(value, dict):
        kind = Prepared if key == "prepared" else File
        return kind(**{name: _value(name, part) for name, part in value.items()})
    return tuple(value) if isinstance(value, list) else value


def _entry(name: str, facts: dict[str, Any]) -> Entry:
    told = {key: _value(key, value) for key, value in facts.items()}
    return Entry(name, **{"n_train": None, "n_test": None, **told})


_TOLD = tomllib.loads((DATA / "registry.toml").read_text(encoding="utf-8"))
ENTRIES = {name: _entry(name, facts) for name, facts in _TOLD.items()}
