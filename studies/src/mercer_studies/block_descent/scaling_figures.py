"""Figure 5 and its claim: a block of the kernel on more and more machines, from records alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mercer_studies import page
from mercer_studies.block_descent.scaling import ENGINE
from mercer_studies.claims import HELD, NOT_TESTED, PARTLY, Claim, graded, of_tasks
from mercer_studies.lines import AID, draw_line, legend_key
from mercer_studies.panels import about, columns, filled, legend, thousands, titled, with_paper_name
from mercer_studies.queries import Record, of_task

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PAPERS_MACHINES = (8, 128)
"""The machines of the paper's figure, the fewest and the most."""

CLOSE, NEAR = 1.25, 1.5

_COLOURS = {ENGINE: "#D55E00"}
_OTHER = "#0072B2"
_MEASURED = "#000000"
_SHORT = {ENGINE: "this engine"}


def points(run: Record, simulated: bool, link: str | None = None) -> dict[int, float]:
    """Seconds by machines, measured or simulated, of one link or of all."""
    return {
        point["machines"]: point["seconds"]
        for point in run["curve"]
        if point["simulated"] is simulated and link in (None, point["link"])
    }


def figure5(records: Iterable[Record]) -> Figure:
    """Seconds of one block against machines: measured in full, simulated hollow and dashed."""
    known = of_task(records, "scaling")
    figure = columns(filled(known, "figure 5"), _panel, width=4.4, heights=(3.2,))
    names = dict.fromkeys(link["name"] for run in known for link in run["links"])
    keys = [legend_key("measured", _MEASURED, "o", linestyle="")]
    keys += [
        legend_key(
            f"simulated, {_SHORT.get(name, name)}", _colour(name), "s", linestyle="--", hollow=True
        )
        for name in names
    ]
    keys.append(legend_key("sending is free", AID["color"], ""))
    legend(figure, keys)
    return figure


def table(records: Sequence[Record]) -> page.Table:
    """A row for every point, measured and simulated."""
    rows = [
        [
            run["data"]["name"],
            f"{run['inputs']:,}",
            f"{run['block_size']:,}",
            point["machines"],
            "simulated" if point["simulated"] else "measured",
            point["link"],
            f"{point['seconds']:.3g}",
            f"{point['seconds'] / points(run, simulated=False)[1]:.2f}",
            f"{1e3 * point['broadcast']:.3g}",
            f"{1e3 * point['dispatch']:.3g}" if point["simulated"] else "–",
            f"{point['sent'] / 1e6:.3g}" if point["simulated"] else "–",
        ]
        for run in of_task(records, "scaling")
        for point in run["curve"]
    ]
    rows += [
        [
            run["data"]["name"],
            *("–",) * 3,
            "stated" if link["name"] != ENGINE else "measured",
            link["name"],
            *("–",) * 2,
            f"{1e3 * link['latency']:.3g} a round",
            f"{1e3 * link['dispatch']:.3g} a task",
            f"{link['bandwidth'] / 1e6:.3g} a second",
        ]
        for run in of_task(records, "scaling")
        for link in run["links"]
    ]
    head = ["data", "inputs", "b", "machines", "what", "network", "s", "of one machine"]
    head += ["ms, rows of the block sent", "ms, tasks handed out", "MB on a path"]
    caption = "Figure 5: one block of the Gaussian kernel, as many rows on every machine"
    return page.table(caption, head, rows, (1, 2, 3, 6, 7, 8, 9, 10))


# --- the claim -------------------------------------------------------------------------------


def _flat(runs: Sequence[Record]) -> tuple[str, str]:
    """128 machines against 8 over every network; and those that were measured."""
    [run] = runs[:1]
    rises = {}
    for link in run["links"]:
        known = points(run, simulated=True, link=link["name"])
        if set(PAPERS_MACHINES) <= set(known):
            few, many = (known[machines] for machines in PAPERS_MACHINES)
            rises[link["name"]] = many / few
    if not rises:
        return NOT_TESTED, "no machines are simulated"
    said = ", ".join(f"{rise:.2f} ({name})" for name, rise in rises.items())
    numbers = f"{PAPERS_MACHINES[1]} machines take so many times as long as 8: {said}"
    most = max(rises.values())
    verdict = graded(most <= CLOSE, most <= NEAR)
    real, model = (points(run, simulated=flag, link=ENGINE) for flag in (False, True))
    for count in sorted(set(real) & set(model) - {1}):
        off = real[count] / model[count]
        numbers += f"; {count} took {off:.2f} times what is simulated"
        verdict = PARTLY if verdict == HELD and off > CLOSE else verdict
    if run.get("remark"):
        numbers += f"; on a machine {run['remark']}, which slows processes unequally"
        return NOT_TESTED, numbers
    return verdict, numbers


CLAIM = Claim(
    "weak-scaling",
    5,
    "With as many rows on every machine, the time of a block of the kernel stays nearly the same "
    "from 8 to 128 machines.",
    "Simulated from one measured machine, over the engine as measured and over 10 Gb/s, 128 "
    f"take at most {CLOSE} times as long as 8; up to {NEAR} times is held in part, and so is a "
    f"simulation that measured machines exceed by more than {CLOSE} times.",
    of_tasks(_flat, "scaling"),
)
"""Section 5.5; the paper's figure has no numbers in its text."""


def _panel(panels: Sequence[Axes], name: str, runs: Sequence[Record]) -> None:
    """Points of one shape, and the range of the paper's machines."""
    [panel] = panels
    [run] = runs[:1]
    measured = points(run, simulated=False)
    most = max(point["machines"] for point in run["curve"])
    panel.plot([1, most], [measured[1]] * 2, **AID)
    for link in run["links"]:
        curve = list(points(run, simulated=True, link=link["name"]).items())
        draw_line(panel, curve, _colour(link["name"]), "s", "--", hollow=True)
    draw_line(panel, list(measured.items()), _MEASURED, "o", "")
    low, high = PAPERS_MACHINES
    panel.axvspan(low, high, color="#f3f0e6", zorder=0)
    panel.annotate(
        "8 to 128 machines, the paper's Figure 5:\n“a slight decrease in performance”",
        (0.99, 0.03),
        xycoords="axes fraction",
        ha="right",
        fontsize=8,
        color="#6b6340",
    )
    _machine_axis(panel, run)
    panel.set_ylim(0, 1.2 * max(point["seconds"] for point in run["curve"]))
    panel.set(xlabel="machines", ylabel="seconds of a block")
    rows = f"{thousands(run['rows'])} rows a machine, d = {run['inputs']}, b = {run['block_size']}"
    titled(panel, with_paper_name(run), about(run, rows))


def _machine_axis(panel: Axes, run: Mapping[str, Any]) -> None:
    from matplotlib.ticker import NullLocator

    counts = sorted({point["machines"] for point in run["curve"]})
    panel.set_xscale("log", base=2)
    panel.set_xticks(counts, [str(count) for count in counts])
    panel.xaxis.set_minor_locator(NullLocator())


def _colour(link: str) -> str:
    return _COLOURS.get(link, _OTHER)
