"""Models read from files that hold nothing but mercer's own objects, numbers and arrays.

skops reads every file of a model, but it imports the whole of scikit-learn before: that takes
longer than a small prediction. The files of most models need little of what it can do.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Container
from importlib import import_module
from typing import Any

import numpy as np

__all__ = ["Other", "read"]

# Parts of scikit-learn that most models have; skops trusts them too.
_PARTS = frozenset(
    f"sklearn.{name}"
    for name in (
        "pipeline.Pipeline",
        "preprocessing._data.MaxAbsScaler",
        "preprocessing._data.StandardScaler",
    )
)
_CONTAINERS = {"ListNode": list, "TupleNode": tuple, "SetNode": set}


class Other(Exception):
    """A file holds something that is left to skops."""


def read(content: bytes, own: Container[str]) -> Any:
    """The object of an audited file; ``Other`` if it needs skops, before any object is made."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        schema = json.loads(archive.read("schema.json"))
        _look(schema, own)
        return _Reader(archive).made(schema)


def _look(node: dict[str, Any], own: Container[str]) -> None:
    loader = node["__loader__"]
    if loader == "ObjectNode":
        if _name(node) not in own and _name(node) not in _PARTS:
            raise Other(_name(node))
        children = [] if node.get("content") is None else [node["content"]]
    elif loader == "DictNode":
        children = [node["key_types"], *node["content"].values()]
    elif loader in _CONTAINERS:
        children = node["content"]
    elif loader == "NdArrayNode" and node["type"] == "json":
        children = [*node["content"], node["shape"]]
    elif loader in ("NdArrayNode", "JsonNode", "TypeNode"):
        children = []
    else:
        raise Other(loader)
    for child in children:
        _look(child, own)


def _name(node: dict[str, Any]) -> str:
    return f"{node['__module__']}.{node['__class__']}"


def _class(node: dict[str, Any]) -> Any:
    return getattr(import_module(node["__module__"]), node["__class__"])


class _Reader:
    """Makes the objects of nodes, each id once."""

    def __init__(self, archive: zipfile.ZipFile):
        self._archive = archive
        self._made: dict[Any, Any] = {}

    def made(self, node: dict[str, Any]) -> Any:
        name = node.get("__id__")
        if name is None:
            return self._new(node)
        if name not in self._made:
            self._made[name] = self._new(node)
        return self._made[name]

    def _new(self, node: dict[str, Any]) -> Any:
        loader, content = node["__loader__"], node.get("content")
        if loader == "JsonNode":
            return json.loads(node["content"])
        if loader == "TypeNode":
            return _class(node)
        if loader in _CONTAINERS:
            return _CONTAINERS[loader]([self.made(child) for child in node["content"]])
        if loader == "DictNode":
            kinds = self.made(node["key_types"])
            entries = zip(kinds, node["content"].items(), strict=True)
            return {kind(key): self.made(child) for kind, (key, child) in entries}
        if loader == "NdArrayNode":
            return self._array(node)
        kind = _class(node)
        made = kind.__new__(kind)
        state = None if content is None else self.made(content)
        if state is not None and hasattr(made, "__setstate__"):
            made.__setstate__(state)
        elif state is not None:
            vars(made).update(state)
        return made

    def _array(self, node: dict[str, Any]) -> Any:
        if node["type"] == "json":
            items = [self.made(child) for child in node["content"]]
            if len(self.made(node["shape"])) != 1:
                return np.array(items, dtype=object)
            array = np.empty(len(items), dtype=object)
            for i, item in enumerate(items):
                array[i] = item
            return array
        array = np.load(io.BytesIO(self._archive.read(node["file"])), allow_pickle=False)
        return array if _name(node) == "numpy.ndarray" else _class(node)(array)
