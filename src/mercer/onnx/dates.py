"""Dates as numbers, by the arithmetic of integers: the graph of ``preparation.calendar``."""

from __future__ import annotations

import numpy as np

from mercer.onnx.graph import Graph, Value

__all__ = ["cycles", "days"]

_DAY = 86_400_000_000  # microseconds
_CENTURIES = 146_097  # days in 400 years
_TO_MARCH = 719_468  # days from 1 March of the year 0 to 1970
_FAR = 10_000  # times 400 years, which make all days positive
_MISSING = np.iinfo(np.int64).min


def days(graph: Graph, dates: Value) -> Value:
    """Days since 1970 of microseconds (n, 1), NaN for missing dates."""
    since = graph.op("Mul", graph.cast(dates, np.float64), 1.0 / _DAY)
    nothing = graph.constant(np.array(np.nan))
    return graph.op("Where", _missing(graph, dates), nothing, since, dtype=np.float64)


def cycles(graph: Graph, dates: Value) -> Value:
    """Sines and cosines of the place in the year, the week and the day; 0 for missing dates."""
    missing = _missing(graph, dates)
    zero = graph.constant(np.array(0, dtype=np.int64))
    known = graph.op("Where", missing, zero, dates, dtype=np.int64)
    in_day = graph.op("Mod", known, _DAY)
    day = graph.op("Div", graph.op("Sub", known, in_day), _DAY)
    part = graph.op("Mul", graph.cast(in_day, np.float64), 1.0 / _DAY)
    of_year = graph.op("Add", graph.cast(_day_of_year(graph, day), np.float64), part)
    turns = [
        graph.op("Mul", of_year, 1.0 / 365.2425),
        graph.op("Mul", graph.op("Add", graph.cast(day, np.float64), part), 1.0 / 7.0),
        part,
    ]
    waves = []
    for turn in turns:
        angle = graph.op("Mul", turn, 2.0 * float(np.pi))
        # Not all runtimes have cosines of float64.
        waves += [graph.op("Sin", angle), graph.op("Sin", graph.op("Add", angle, float(np.pi / 2)))]
    nothing = graph.constant(np.array(0.0))
    return graph.op("Where", missing, nothing, graph.joined(waves), dtype=np.float64)


def _missing(graph: Graph, dates: Value) -> Value:
    least = graph.constant(np.array(_MISSING))
    return graph.op("Equal", dates, least, dtype=bool)


def _day_of_year(graph: Graph, day: Value) -> Value:
    """Days since 1 January, by years that begin in March, whose days add up regularly."""

    def op(kind: str, a: Value, b: Value | int) -> Value:
        return graph.op(kind, a, b)

    shifted = op("Add", day, _TO_MARCH + _FAR * _CENTURIES)
    in_era = op("Mod", shifted, _CENTURIES)  # an era has 400 years
    leaps = op("Sub", op("Div", in_era, 36_524), op("Div", in_era, 1460))
    year = op("Div", op("Sub", op("Add", in_era, leaps), op("Div", in_era, 146_096)), 365)
    passed = op("Sub", op("Add", op("Mul", year, 365), op("Div", year, 4)), op("Div", year, 100))
    since_march = op("Sub", in_era, passed)
    # A year of an era is a leap year by the rule of four, hundred and four hundred.
    by_four = graph.op("Equal", op("Mod", year, 4), 0, dtype=bool)
    by_hundred = graph.op("Equal", op("Mod", year, 100), 0, dtype=bool)
    by_era = graph.op("Equal", op("Mod", year, 400), 0, dtype=bool)
    is_leap = graph.op("Or", graph.op("And", by_four, graph.op("Not", by_hundred)), by_era)
    before_march = graph.op("Add", graph.cast(is_leap, np.int64), 59)
    after_new_year = graph.op("GreaterOrEqual", since_march, 306, dtype=bool)
    late = op("Sub", since_march, 306)
    early = op("Add", since_march, before_march)
    return graph.op("Where", after_new_year, late, early, dtype=np.int64)
