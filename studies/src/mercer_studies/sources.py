"""Data sets as studies declare them, and their rows as runs take them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache, wraps
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from mercer import datasets
from mercer.compare.records import describe_data
from mercer.datasets import Dataset, Split
from mercer_studies.inputs import GENERATED, generated

_PATIENCE = 5  # seconds in which the home of a data set must answer
_ROWS = 20_000  # assumed of a data set whose size the catalogue does not tell


@dataclass(frozen=True)
class Source:
    """One data set as a study declares it."""

    name: str  # in ``mercer.datasets``, or "generated-..." for rows that are made up
    paper_name: str | None = None  # in the paper; None for sets that the paper does not have
    inputs: str = "as is"  # scaling, one of ``inputs.INPUTS``
    _: KW_ONLY
    test_share: float = 0.2  # share of the rows held out where there is no official split

    @property
    def is_generated(self) -> bool:
        return self.name.startswith("generated-")

    @property
    def catalogue_name(self) -> str:
        """Name in ``mercer.datasets``."""
        return self.name

    @property
    def is_split(self) -> bool:
        """Whether an official test part, where there is one, is used."""
        return True

    def shape(self) -> tuple[int, int, int]:
        """Training rows, test rows and inputs, as far as they are known without loading."""
        if self.is_generated:
            return GENERATED
        known = datasets.describe(self.catalogue_name)
        n, m = known.n_train or _ROWS, known.n_test
        if m is None or not self.is_split:
            m = int(n * self.test_share)
            n -= m
        return n, m, known.n_features

    def is_available(self) -> bool:
        """True if the data are generated, at hand, or at a public home that answers."""
        if self.is_generated:
            return True
        known = datasets.describe(self.catalogue_name)
        if known.where != "to be fetched":
            return known.where != "to be put there by hand"
        return all(_answers(f"{url.scheme}://{url.netloc}") for url in map(urlsplit, known.urls))

    def data(self) -> Dataset:
        """The whole data set."""
        return generated(self.name) if self.is_generated else datasets.load(self.catalogue_name)


Method = TypeVar("Method", bound=Callable[..., Any])


def remembered(method: Method) -> Method:
    """Method of a ``Loaded`` that works out its result once for given arguments."""

    @wraps(method)
    def result(self: Loaded, *args: Any) -> Any:
        key = method.__name__, *args
        if key not in self._known:
            self._known[key] = method(self, *args)
        return self._known[key]

    return cast(Method, result)


class Loaded:
    """A data set in its training and test rows."""

    def __init__(self, source: Source, data: Dataset, parts: Split, n_jobs: int | None = None):
        self.source, self.n_jobs = source, n_jobs
        self.task = data.task
        self._data, self._parts = data, parts
        self._known: dict[tuple[Any, ...], Any] = {}

    def describe(self) -> dict[str, Any]:
        """Entries of a record on the data."""
        described = describe_data(self._data, self._as_matrices())
        described |= {"paper_name": self.source.paper_name, "inputs": self.source.inputs}
        return described | ({"kind": "generated"} if self.source.is_generated else {})

    def _some(self, rows: int | None, test_rows: int | None) -> Split:
        """Training and test rows drawn at random; None takes all."""
        parts = self._parts
        kept = drawn(parts.X_train.shape[0], rows)
        held = drawn(parts.X_test.shape[0], test_rows)
        X, X_test = parts.X_train[kept], parts.X_test[held]
        return Split(X, parts.y_train[kept], X_test, parts.y_test[held], parts.split_note)

    def _as_matrices(self) -> Split:
        """The rows with two axes, for what is told of them."""
        return self._parts


@lru_cache
def _answers(home: str) -> bool:
    """True if a server answers; each server is asked once."""
    import requests

    try:
        requests.head(home, timeout=_PATIENCE, allow_redirects=False)
    except requests.RequestException:
        return False
    return True


def names_in_paper(sources: Iterable[Source]) -> tuple[str, ...]:
    """Names that the paper has for the data sets, each once.

    >>> names_in_paper([Source("mnist", "MNIST"), Source("cpu"), Source("mnist8m", "MNIST")])
    ('MNIST',)
    """
    return tuple(dict.fromkeys(source.paper_name for source in sources if source.paper_name))


def drawn(n: int, rows: int | None) -> NDArray[np.int64]:
    """``rows`` of n rows in random order, so that the first are a fair sample.

    ``rows``: none takes all.
    """
    return np.random.default_rng(0).permutation(n)[:rows]
