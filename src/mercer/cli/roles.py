"""The columns that options name and what they are for; without NumPy, for which no help waits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mercer._runtime.messages import shown


@dataclass(frozen=True)
class Roles:
    """The names that options give to columns."""

    target: str | None = None
    features: tuple[str, ...] = ()  # none: all that have no other role
    drop: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()  # left out of the inputs, and kept beside predictions
    weights: str | None = None
    groups: str | None = None
    time: str | None = None  # orders the rows, and is an input, too
    offset: str | None = None  # known parts of the responses
    exposure: str | None = None  # whose logarithms are
    missing: tuple[str, ...] | None = None  # words for a missing cell; None: the usual ones

    @property
    def others(self) -> dict[str, tuple[str, ...]]:
        """The names that options besides ``--target`` give, by option."""
        named = {
            "--features": self.features,
            "--drop": self.drop,
            "--id": self.ids,
            "--weights": () if self.weights is None else (self.weights,),
            "--groups": () if self.groups is None else (self.groups,),
            "--offset": () if self.offset is None else (self.offset,),
            "--exposure": () if self.exposure is None else (self.exposure,),
        }
        return {option: names for option, names in named.items() if names}

    def refuse_others(self, what: str) -> None:
        """Raise if options name columns of data that have no named columns."""
        named = self.others | ({} if self.time is None else {"--time": (self.time,)})
        if named:
            option = next(iter(named))
            raise ValueError(f"{option} needs a file with names of columns; {what}.")

    def refuse_words(self, what: str) -> None:
        """Raise if words for missing cells are given for data that are no CSV file."""
        if self.missing is not None:
            raise ValueError(f"--missing needs a CSV file; {what}.")

    def inputs(self, source: str, names: Sequence[str], target: str | None) -> list[str]:
        """The columns to fit, once all that is named is found to be there and to have one role."""
        met: dict[str, str] = {} if target is None else {target: "--target"}
        for option, named in self.others.items():
            for name in named:
                require(source, [name], names, option)
                if met.setdefault(name, option) != option:
                    raise ValueError(f"{option} and {met[name]} must not both name {name!r}.")
        left = [n for n in self.features or names if self.features or n not in met]
        if not left:
            raise ValueError(f"{source} has no column left to learn from.")
        if self.time is not None:
            require(source, [self.time], names, "--time")
            if self.time not in left:
                raise ValueError(
                    f"--time must name a column to learn from; {self.time!r} is named by "
                    f"{met[self.time]}."
                    if self.time in met
                    else f"--time must name a column to learn from; --features lacks {self.time!r}."
                )
        return left


def names_in(text: str | None) -> tuple[str, ...]:
    """Names with commas between them; a name that holds one itself stands in quotes."""
    import csv

    if not text:
        return ()
    try:
        [cells] = csv.reader([text], skipinitialspace=True)
    except csv.Error:
        raise ValueError(
            "names of columns must have commas between them, and quotes around a name that holds "
            f"an end of line; got {shown(text)}."
        ) from None
    return tuple(dict.fromkeys(cell.strip() for cell in cells if cell.strip()))


def words_in(text: str | None) -> tuple[str, ...] | None:
    """The words that ``--missing`` gives; none of an empty text, None without the option."""
    return None if text is None else names_in(text)


def require(source: str, wanted: Sequence[str], names: Sequence[str], option: str = "") -> None:
    """Raise for missing columns, with the nearest name or the names of several."""
    from mercer.datasets.arrow import SHOWN, near

    lacking = [name for name in wanted if name not in names]
    if not lacking:
        return
    prefix = f"{option}: " if option else ""
    if len(lacking) == 1:
        name = lacking[0]
        raise ValueError(f"{prefix}{source} has no column {shown(name)}{near(name, names)}")
    more = f" and {len(lacking) - SHOWN} more" if len(lacking) > SHOWN else ""
    listed = ", ".join(map(shown, lacking[:SHOWN]))
    raise ValueError(f"{prefix}{source} has no columns {listed}{more}.")
