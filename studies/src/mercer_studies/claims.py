"""Claims of a paper, and verdicts on them that rest on records alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from mercer_studies.queries import Record, by_data, of_task, select

HELD, PARTLY, NOT_HELD, NOT_TESTED = "held", "held in part", "not held", "not tested"

_MOST = 0.8  # a claim on many data sets is held when it is on four of five
_FEW = 0.2

PROTOCOLS = {"published": "as published", "fair": "on equal terms"}
"""How runs are made and settings chosen: as the authors did, or alike for every method."""


@dataclass(frozen=True)
class Finding:
    """A claim on one data set."""

    data: str  # name of the data set
    protocol: str
    verdict: str  # one of ``HELD``, ``PARTLY``, ``NOT_HELD``, ``NOT_TESTED``
    numbers: str  # numbers behind the verdict, as text


@dataclass(frozen=True)
class Claim:
    """Something a paper says, and how records are to decide on it.

    ``text``, ``rule``: what is claimed, and when it is held, in a sentence each.
    """

    name: str  # a short name
    figure: int | str  # number of the figure, or another name: "Table 1"
    text: str
    rule: str
    decide: Decision

    @property
    def place(self) -> str:
        """The figure or the table by its name."""
        return f"Figure {self.figure}" if isinstance(self.figure, int) else self.figure


Found = tuple[str, str]
"""A verdict, and the numbers it rests on."""

Rule = Callable[[Sequence[Record]], Found]
"""From the runs on one data set to a verdict and its numbers."""

Decision = Callable[[Sequence[Record]], list[Finding]]
"""``Claim.decide``: from all records to a finding for each data set."""


@dataclass(frozen=True)
class Judgement:
    """A claim with what was found."""

    claim: Claim
    findings: tuple[Finding, ...]

    def under(self, protocol: str) -> Judgement:
        """Judgement restricted to one protocol."""
        found = (finding for finding in self.findings if finding.protocol == protocol)
        return Judgement(self.claim, tuple(found))

    @property
    def verdict(self) -> str:
        """Held on four of five tested data sets, not held on fewer than one in five, else in part.

        A data set on which the claim is held in part counts half.
        """
        tested = [finding.verdict for finding in self.findings if finding.verdict != NOT_TESTED]
        if not tested:
            return NOT_TESTED
        share = (tested.count(HELD) + 0.5 * tested.count(PARTLY)) / len(tested)
        if share >= _MOST:
            return HELD
        return NOT_HELD if share < _FEW else PARTLY


def graded(held: object, partly: object = False) -> str:
    """``HELD`` if the first is true, else ``PARTLY`` if the second is, else ``NOT_HELD``."""
    return HELD if held else PARTLY if partly else NOT_HELD


def overall(verdicts: Sequence[str]) -> str:
    """Held if all decided verdicts are, in part if some are; not tested if none is decided."""
    decided = [verdict for verdict in verdicts if verdict != NOT_TESTED]
    held = decided.count(HELD)
    return graded(held == len(decided), held) if decided else NOT_TESTED


def judge(claims: Iterable[Claim], records: Iterable[Record]) -> list[Judgement]:
    """A verdict on every claim, in the order of the claims."""
    known = list(records)
    return [Judgement(claim, tuple(claim.decide(known))) for claim in claims]


def of_each(rule: Rule, *, figure: int | str, protocol: str, method: str | None = None) -> Decision:
    """A decision on one data set after the other, from runs of a figure, protocol and method.

    >>> decide = of_each(lambda runs: (HELD, f"{len(runs)} runs"), figure=3, protocol="fair")
    >>> decide([])
    []
    """

    def decide(records: Sequence[Record]) -> list[Finding]:
        chosen = by_data(select(records, figure=figure, protocol=protocol, method=method))
        return [Finding(name, protocol, *rule(runs)) for name, runs in chosen.items()]

    return decide


def of_tasks(rule: Rule, *tasks: str, kinds: Sequence[str] = ()) -> Decision:
    """A decision on one data set after the other, from runs of some tasks.

    ``kinds``: of "classification" and "regression"; other data sets are left out; () takes all.
    """

    def decide(records: Sequence[Record]) -> list[Finding]:
        return [
            Finding(name, "fair", *rule(runs))
            for name, runs in by_data(of_task(records, *tasks)).items()
            if not kinds or runs[0]["data"]["task"] in kinds
        ]

    return decide
