"""The runs of a study on one data set, as stages of cells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Self

from mercer_studies.papers import Selected
from mercer_studies.runner import Cell, Stage
from mercer_studies.sources import Source

Run = Callable[..., dict[str, Any]]
"""A run: takes what was loaded and settings by name, returns the results of a record.

Settings of most runs: ``method``, one of ``grid.METHODS``; ``rows`` and ``test_rows``, drawn at
random, None takes all; ``fitted``, rows with which γ, λ and C are chosen; ``seed``.
"""


@dataclass(frozen=True, eq=False)  # sources need not be hashable
class Loading:
    """Loader of a data set, for ``Stage.load``."""

    load: Callable[..., Any]  # from a source and a number of threads to the loaded data
    source: Source
    n_jobs: int | None

    def __call__(self) -> Any:
        return self.load(self.source, self.n_jobs)

    @property
    def missing(self) -> str:
        """Name of the data set if it cannot be loaded on this machine, else an empty string."""
        return "" if self.source.is_available() else self.source.catalogue_name


class Plan:
    """The runs of a study on one data set; each paper's plan says which.

    ``sources``: those of the paper by name; ``load``: from a source and a number of threads to what
    runs work on.
    """

    sources: Mapping[str, Any]
    load: Callable[..., Any]

    def __init__(self, source: Any, scale: Any, selected: Selected):
        self.source, self.name = source, str(source.name)
        self._scale, self._selected, self._n_jobs = scale, selected, selected.n_jobs
        self._n, self._m, self._d = source.shape()

    @classmethod
    def each(cls, names: Iterable[str], scale: Any, selected: Selected) -> list[Self]:
        """A plan for each of some data sets."""
        return [cls(cls.sources[name], scale, selected) for name in names]

    @cached_property
    def _load(self) -> Loading:
        return Loading(type(self).load, self.source, self._n_jobs)

    def at_most(self, rows: int | None) -> int:
        """``rows`` training rows, or all if there are fewer."""
        return min(rows or self._n, self._n)

    def unless_all(self, rows: int | None) -> int | None:
        """``rows`` training rows; None if these are all."""
        rows = self.at_most(rows)
        return None if rows == self._n else rows

    def stage(self, part: str, cells: Sequence[Cell]) -> Stage:
        """Runs that do not depend on others."""
        return Stage(f"{self.name}, {part}", lambda found: cells, self._load)

    def left_out(self, rows: int, stands_in: bool) -> list[str]:
        """Sentences on a stand-in for the paper's data, and on rows that are not fitted."""
        said = [f"{self.name} stands in for {self.source.paper_name}."] if stands_in else []
        if rows < self._n:
            said.append(f"{self.name}: {rows} of its {self._n} training rows are fitted.")
        return said


def called(run: Run, settings: Mapping[str, Any]) -> Callable[[Any], dict[str, Any]]:
    """A run with its settings, as a cell wants it."""
    return partial(_call, run, settings)


def names_of(sources: Mapping[str, Source], names: Iterable[str], selected: Selected) -> list[str]:
    """The data sets of a part of a study that are selected, in the order of the sources."""
    kept = selected.datasets or tuple(names)
    return [name for name in sources if name in kept]


def _call(run: Run, settings: Mapping[str, Any], loaded: Any) -> dict[str, Any]:
    return run(loaded, **settings)
