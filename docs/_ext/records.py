"""Directives that put stored benchmark runs on a page."""

from __future__ import annotations

from typing import ClassVar

import records_read
from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from sphinx.application import Sphinx


class RecordTable(Directive):
    """Errors, or with ``:seconds:`` times, of every table and contender of a record."""

    required_arguments = 1
    option_spec: ClassVar = {"seconds": lambda text: True}

    def run(self) -> list[nodes.Node]:
        read = records_read.seconds_of if "seconds" in self.options else records_read.table_of
        return parsed(self, table(*read(self.arguments[0])))


class RecordSummary(Directive):
    """One sentence on a record."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        return parsed(self, [records_read.summary(self.arguments[0])])


class RecordWins(Directive):
    """On how many tables of a record ours has the lower error than each rival."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        return parsed(self, table(*records_read.wins_of(self.arguments[0])))


class RecordRuns(Directive):
    """Runs of a record: a row each with ``:columns:``, or a row per task and a column per method
    with the one number that ``:measure:`` names, the largest in bold or, with ``:lowest:``, the
    smallest; ``:nominal:`` puts none in bold."""

    required_arguments = 1
    option_spec: ClassVar = {
        "columns": str.split,
        "measure": str,
        "lowest": lambda text: min,
        "nominal": lambda text: None,
    }

    def run(self) -> list[nodes.Node]:
        name, options = self.arguments[0], self.options
        if "measure" in options:
            best = options.get("lowest", options.get("nominal", max))
            return parsed(self, table(*records_read.by_task(name, options["measure"], best)))
        return parsed(self, table(*records_read.runs_of(name, options["columns"])))


class RecordTasks(Directive):
    """Whole tasks: a sentence on the runs, then for each task a table and ratios.

    With an argument, the table of the task of that name alone.
    """

    optional_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        if self.arguments:
            return parsed(self, table(*records_read.task_table(self.arguments[0])))
        lines = [records_read.tasks_summary()]
        for task in dict.fromkeys(run["task"] for run in records_read.task_runs()):
            lines += ["", f".. rubric:: {task[0].upper()}{task[1:]}", ""]
            lines += [*table(*records_read.task_table(task)), ""]
            lines += [f"- {sentence}" for sentence in records_read.task_ratios(task)]
        return parsed(self, lines)


class RecordElo(Directive):
    """Elo ratings of all contenders, over the tables of the records named, by default of most."""

    optional_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        names = self.arguments[0].split() if self.arguments else []
        return parsed(self, table(*records_read.elo_table(*names)))


def table(header: list[str], body: list[list[str]], classes: str = "record") -> list[str]:
    lines = [".. list-table::", "   :header-rows: 1", f"   :class: {classes}", ""]
    for row in [header, *body]:
        lines += [f"   {'* -' if not place else '  -'} {cell}" for place, cell in enumerate(row)]
    return lines


def parsed(directive: Directive, lines: list[str]) -> list[nodes.Node]:
    holder = nodes.container()
    directive.state.nested_parse(StringList(lines, source="records"), 0, holder)
    return holder.children


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("record-table", RecordTable)
    app.add_directive("record-summary", RecordSummary)
    app.add_directive("record-runs", RecordRuns)
    app.add_directive("record-wins", RecordWins)
    app.add_directive("record-tasks", RecordTasks)
    app.add_directive("record-elo", RecordElo)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
