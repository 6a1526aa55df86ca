"""``mercer datasets`` and ``mercer info``: what there is."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from mercer.cli.options import Json, narrow, print_json, show_table, simple_table


def list_datasets(as_json: Json = False) -> None:
    """List the data sets known by name, and where they are to be had."""
    from mercer import datasets

    descriptions = [datasets.describe(name) for name in datasets.names()]
    if as_json:
        print_json({"datasets": [asdict(description) for description in descriptions]})
        return
    table = simple_table(caption="Folders: MERCER_DATA names one that is looked in first.")
    headings = ["name", "task", "rows", "test rows", "inputs", "where", "licence"]
    if narrow():
        headings.pop()
    for heading in headings:
        table.add_column(heading, justify="right" if heading.endswith("s") else "left")
    for description in descriptions:
        cells = (
            description.name,
            description.task,
            "–" if description.n_train is None else str(description.n_train),
            "–" if description.n_test is None else str(description.n_test),
            str(description.n_features),
            description.where,
            description.licence,
        )
        table.add_row(*cells[: len(headings)])
    show_table(table)


def show_info(as_json: Json = False) -> None:
    """Print versions, the processor's features in use, and threads."""
    content = _info()
    if as_json:
        print_json(content)
        return
    table = simple_table()
    table.add_column("what")
    table.add_column("value", overflow="fold")
    for name, version in content["versions"].items():
        table.add_row(name, version or "not installed")
    for name, value in content["machine"].items():
        table.add_row(name, _words(name, value))
    show_table(table)


def _info() -> dict[str, Any]:
    from importlib import metadata

    from mercer import _core
    from mercer._runtime.devices import describe_devices
    from mercer.compare.records import environment

    content = environment()
    for name in ("skops", "typer", "rich", "matplotlib", "pooch", "pyarrow"):
        try:
            content["versions"][name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            content["versions"][name] = None
    cpu = _core.cpu_info()
    content["machine"] |= {
        "instructions_compiled": cpu["compiled"],
        "processor_features": cpu["features"],
        "devices": ["cpu", *describe_devices()],
    }
    return content


def _words(name: str, value: Any) -> str:
    from mercer._runtime.arrays import format_bytes

    if name == "available_memory":
        return "unknown" if value is None else format_bytes(value)
    return ", ".join(value) if isinstance(value, (list, tuple)) else str(value)
