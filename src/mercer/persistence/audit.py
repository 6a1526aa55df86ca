"""Checks of a model file before any object is made of it.

A model file is an archive of skops: ``schema.json``, a tree of nodes that say what to make, and the
arrays. A file is refused that names more than models need, or whose parts do not agree with each
other. Nothing here makes an object or imports what a file names.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Container, Iterator
from typing import Any

import numpy as np

from mercer._runtime.arrays import check_memory
from mercer._runtime.files import array_header

__all__ = ["SPARSE", "WORTH_PACKING", "Damaged", "foreign_type", "kind_of_file"]

# Up to here descriptions, which pack well, are much of a file; beyond, it is numbers, which do not.
WORTH_PACKING = 2**20

_PROTOCOL = 2  # of skops, since 0.11; before, nodes were other ones
_DEPTH = 200  # of nodes; a model has some forty
_PACKED_SPARSE = 100  # times that a matrix of zeros and ones is smaller when it is packed
_COPIES = 3.0  # of an array that are there at once: packed, unpacked, and as it is held

_SCALARS = frozenset(
    f"numpy.{kind.__name__}"
    for kind in np.sctypeDict.values()
    if not issubclass(kind, (np.object_, np.void))
)
# Sparse rows of a model, as users have given them.
SPARSE = frozenset(f"scipy.sparse._csr.{name}" for name in ("csr_array", "csr_matrix"))
_KEYS = frozenset(f"builtins.{name}" for name in ("str", "int", "float", "bool", "NoneType"))

# The nodes of a model file, and the classes that they may name; those of objects are told apart.
_CLASSES: dict[str, frozenset[str]] = {
    "DictNode": frozenset({"builtins.dict"}),
    "ListNode": frozenset({"builtins.list"}),
    "TupleNode": frozenset({"builtins.tuple"}),
    "SetNode": frozenset({"builtins.set"}),
    "JsonNode": frozenset({"builtins.str"}),
    "TypeNode": _KEYS | _SCALARS,
    "NdArrayNode": frozenset({"numpy.ndarray"}) | _SCALARS,
    "MaskedArrayNode": frozenset({"numpy.ma.MaskedArray", "numpy.ma.core.MaskedArray"}),
    "DTypeNode": frozenset({"numpy.dtype"}),
    "SparseMatrixNode": SPARSE,
    "RandomStateNode": frozenset({"numpy.random.mtrand.RandomState"}),
    "RandomGeneratorNode": frozenset({"numpy.random._generator.Generator"}),
}
# Parts of scikit-learn that work with arrays of NumPy: others hold tables for compiled code, which
# trusts them.
_PARTS = (
    "calibration compose decomposition dummy feature_selection impute linear_model model_selection "
    "multiclass multioutput pipeline preprocessing"
)
_SKLEARN = tuple(f"sklearn.{part}." for part in _PARTS.split())
_GENERATORS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")
# Numbers of a generator that it uses without a look, with what they may be at most.
_AT_MOST = {"pos": 624, "buffer_pos": 4, "pool_size": 64}

_STARTS = {
    b"": "an empty file",
    b"\x80": "a pickle, which is not read",
    b"\x93NUMPY": "an array of NumPy",
    b"\x89HDF": "an HDF5 file",
    b"\x1f\x8b": "a gzip file",
    b"PK": "another archive, or it is damaged",
}


class Damaged(ValueError):
    """A file says things that do not fit each other."""


def kind_of_file(content: bytes) -> str:
    """The kind of a file that holds no model, by its first bytes."""
    for start, kind in _STARTS.items():
        if content.startswith(start) and (start or not content):
            return kind
    return "something else"


def foreign_type(content: bytes, own: Container[str]) -> str | None:
    """First object in a model file that no model is made of, or None.

    ``Damaged`` for a broken archive or parts that do not fit; a MemoryError if too large.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            _check_sizes(archive, len(content))
            schema = json.loads(archive.read("schema.json"))
            if not isinstance(schema, dict) or schema.get("protocol", 0) < _PROTOCOL:
                raise Damaged("its schema is none that mercer writes")
            audit = _Audit(archive, own)
            audit.look(schema)
            return audit.foreign[0] if audit.foreign else None
    except KeyError as error:
        raise Damaged(f"it lacks {error}") from error
    except RecursionError as error:
        raise Damaged("it is nested too deeply") from error


def _check_sizes(archive: zipfile.ZipFile, packed: int) -> None:
    """Refuse an archive that unpacks to more than one of a model does."""
    names = archive.namelist()
    if len(set(names)) < len(names):
        raise Damaged("it holds two members of one name")
    unpacked = sum(member.file_size for member in archive.infolist())
    if unpacked > packed + WORTH_PACKING:
        raise Damaged(f"its {packed} bytes unpack to {unpacked}")
    check_memory(_COPIES * unpacked, "a model file", "free memory")


class _Audit:
    """A look at every node of a schema."""

    def __init__(self, archive: zipfile.ZipFile, own: Container[str]):
        self.archive, self.own = archive, own
        self.foreign: list[str] = []
        # Sizes of nodes by id, and what texts and numbers say.
        self.told: dict[Any, tuple[int, str | None]] = {}
        self.owners: dict[str, Any] = {}  # ids of nodes by the member that they are made of

    def look(self, node: Any, depth: int = 0) -> int:
        """Look at a node and those below it; returns how many they are."""
        if depth > _DEPTH:
            raise Damaged("it is nested too deeply")
        if not isinstance(node, dict):
            raise Damaged("its schema is no tree of nodes")
        loader, name = str(node["__loader__"]), f"{node['__module__']}.{node['__class__']}"
        if loader == "ObjectNode":
            if name not in self.own and not name.startswith(_SKLEARN):
                self.foreign.append(name)
        elif name not in _CLASSES.get(loader, ()):
            self.foreign.append(name if loader in _CLASSES else f"a {loader} of {name}")
        size = 1
        if loader in _CLASSES or loader == "ObjectNode":
            size += sum(self.look(child, depth + 1) for child in self._children(loader, node))
        # Where an object is told again, the first time counts. A short second time would be a way
        # to write lists of lists that are far larger than the file.
        told = size, content if isinstance(content := node.get("content"), str) else None
        if node.get("__id__") and self.told.setdefault(node["__id__"], told) != told:
            raise Damaged("it tells one object in two ways")
        return size

    def _children(self, loader: str, node: dict[str, Any]) -> list[Any]:
        content: Any = node.get("content")
        if loader == "ObjectNode":
            return [] if content is None else [content]
        if loader in ("JsonNode", "TypeNode"):
            if loader == "JsonNode" and not isinstance(content, str):
                raise Damaged("a number or a text is not written as one")
            return []
        if loader == "DictNode":
            self._check_keys(node)
            return [node["key_types"], *node["content"].values()]
        if loader in ("ListNode", "TupleNode", "SetNode"):
            return list(node["content"])
        if loader == "NdArrayNode" and node["type"] == "json":
            if any(part["__loader__"] != "JsonNode" for part in node["content"]):
                raise Damaged("an array of objects holds more than texts and numbers")
            return [*node["content"], node["shape"]]
        if loader in ("NdArrayNode", "SparseMatrixNode"):
            self._check_member(node, loader == "SparseMatrixNode")
            return []
        if loader in ("RandomStateNode", "DTypeNode"):
            if loader == "RandomStateNode":
                _check_generator(content)
            return [content]
        if loader == "RandomGeneratorNode":
            for part in content.values():
                _check_generator(part)
        return list(content.values())

    def _check_keys(self, node: dict[str, Any]) -> None:
        kinds, content = node["key_types"], node["content"]
        if not isinstance(content, dict) or kinds["__loader__"] != "ListNode":
            raise Damaged("a dict is not written as one")
        if len(kinds["content"]) != len(content):
            raise Damaged("a dict has other keys than types of keys")
        if any(kind["__loader__"] != "TypeNode" for kind in kinds["content"]):
            raise Damaged("a key of a dict has no type")

    def _check_member(self, node: dict[str, Any], is_sparse: bool) -> None:
        """Refuse a member that is no array, or that several objects share."""
        name = node["file"]
        if self.owners.setdefault(name, node.get("__id__")) != node.get("__id__"):
            raise Damaged(f"two objects are made of {name}")
        content = self.archive.read(name)
        if not is_sparse:
            _check_array(content, name)
            return
        with zipfile.ZipFile(io.BytesIO(content)) as parts:
            unpacked = sum(part.file_size for part in parts.infolist())
            if unpacked > _PACKED_SPARSE * len(content) + WORTH_PACKING:
                raise Damaged(f"{len(content)} bytes of {name} unpack to {unpacked}")
            check_memory(_COPIES * unpacked, "a sparse matrix of a model file", "free memory")
            for part in parts.namelist():
                _check_array(parts.read(part), f"{name}/{part}")


def _check_array(content: bytes, name: str) -> None:
    """Raise for an array whose header contradicts its content, or that holds objects."""
    file = io.BytesIO(content)
    try:
        shape, dtype = array_header(file)
    except (ValueError, TypeError, SyntaxError) as error:
        raise Damaged(f"{name} is no array of NumPy") from error
    if dtype.hasobject:
        raise Damaged(f"{name} holds objects")
    size = math.prod((dtype.itemsize, *shape))
    if min(shape, default=0) < 0 or size != len(content) - file.tell():
        raise Damaged(f"{name} says it has shape {shape}, which is not what follows")


def _check_generator(content: dict[str, Any]) -> None:
    """Refuse states that generators of random numbers would use without a look."""
    if content["__loader__"] != "DictNode":
        raise Damaged("a generator of random numbers has no dict for a state")
    for name, node in _entries(content):
        value = json.loads(node["content"]) if node["__loader__"] == "JsonNode" else None
        if name == "bit_generator" and value not in _GENERATORS:
            raise Damaged(f"{value!r} is no generator of random numbers")
        if name in _AT_MOST and not (isinstance(value, int) and 0 <= value <= _AT_MOST[name]):
            raise Damaged(f"{name} of a generator of random numbers is {value!r}")


def _entries(node: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The entries of a dict of nodes, and of those in it."""
    for name, child in node["content"].items():
        if child["__loader__"] == "DictNode":
            yield from _entries(child)
        else:
            yield name, child
