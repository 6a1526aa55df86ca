"""Fitted models with something wrong in them: every attribute edited, every part of a file.

``zoo`` names fitted models, ``mutations`` the edits of one, ``file_mutations`` those of its file,
and ``outcome`` says what a model does after one. An edited model may raise any exception; a copy or
a file is refused in one sentence or answers. ``sweep`` tries them in a process of its own,
since a model that reaches memory that is not its own takes the process with it. As a program:
``python tests/_mutations.py [all|NAME,NAME] [every how many]``.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import subprocess
import sys
import tempfile
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from threading import Timer
from typing import Any

import numpy as np
from scipy import sparse

try:
    import resource
except ModuleNotFoundError:  # Windows
    resource = None

from _values import wrong_arrays, wrong_values
from _zoo import data_of, rows, zoo
from mercer import maps, persistence

WAYS = ("edit", "copy", "file")  # of a live model, of one that is then pickled, of a model file
SECONDS = 20.0  # that no case takes: a hang
MEMORY = 8 * 2**30  # that no case may take
CLEAN = (ValueError, TypeError, MemoryError)  # what a broken model may raise, in one sentence

# Edits after which an array or a number is another kind of thing: no answer can be right any more,
# unless it is the one from before.
STRUCTURAL = (
    *("0-d", "flat", "deeper", "transposed", "shorter", "longer", "one row", "no rows", "narrower"),
    *("wider", "a list", "None", "a string", "an object", "an empty array", "deleted", "left out"),
    *(f"dtype {dtype}" for dtype in ("c16", "i1", "i4", "i8", "u8", "?", "S4", "U4", "O")),
    *("NaN somewhere", "NaN everywhere", "inf somewhere", "inf everywhere", "nan", "inf"),
)

# Of any length, what a model does that was fitted to rows as they are, and a square of numbers.
_FREE = ("conformal_.scores", "_residuals_", "scaler_ = None", "normalization_ = transposed")

# --- edits of objects ------------------------------------------------------------------------


def _is_own(value: Any) -> bool:
    name = type(value).__module__
    return name.startswith(("mercer.", "sklearn.")) and hasattr(value, "__dict__")


def _children(value: Any) -> Iterator[tuple[tuple[str, Any], Any]]:
    """How to reach what an object holds, and what that is."""
    if _is_own(value):
        for name in sorted(vars(value)):
            if not name.startswith("_sk") and name not in ("_memory", "held_out_"):  # in no copy
                yield ("attribute", name), vars(value)[name]
    elif sparse.issparse(value):
        for name in ("data", "indices", "indptr"):
            yield ("attribute", name), getattr(value, name)
    elif isinstance(value, dict):
        for key in value:
            yield ("item", key), value[key]
    elif isinstance(value, (list, tuple)):
        for place, part in enumerate(value):
            yield ("item", place), part


def _get(owner: Any, step: tuple[str, Any]) -> Any:
    return (
        vars(owner)[step[1]]
        if step[0] == "attribute" and _is_own(owner)
        else (getattr(owner, step[1]) if step[0] == "attribute" else owner[step[1]])
    )


def _set(owner: Any, step: tuple[str, Any], value: Any) -> Any:
    """``owner`` with a part replaced: itself, but for tuples."""
    if step[0] == "attribute":
        try:
            setattr(owner, step[1], value)
        except AttributeError:  # frozen, which a file is not bound by
            object.__setattr__(owner, step[1], value)
    elif isinstance(owner, tuple):
        return (*owner[: step[1]], value, *owner[step[1] + 1 :])
    else:
        owner[step[1]] = value
    return owner


def _edit(owner: Any, path: tuple[tuple[str, Any], ...], value: Any) -> Any:
    if not path:
        return value
    inner = _edit(_get(owner, path[0]), path[1:], value)
    return _set(owner, path[0], inner)


def _paths(
    value: Any, path: tuple[tuple[str, Any], ...] = (), seen: frozenset[int] = frozenset()
) -> Iterator[tuple[tuple[tuple[str, Any], ...], Any]]:
    """Every part of an object, however deep, and how to reach it."""
    if id(value) in seen or len(path) > 8:
        return
    for step, part in _children(value):
        if isinstance(value, (list, tuple)) and len(value) > 3 and step[1] > 1:
            continue  # one after the other is the same again
        yield (*path, step), part
        yield from _paths(part, (*path, step), seen | {id(value)})


def mutations(model: Any, rng: np.random.Generator) -> Iterator[tuple[str, Callable[[Any], None]]]:
    """Edits of a fitted model: a sentence, and what makes the edit in an equal model."""
    for path, value in _paths(model):
        name = ".".join(str(part) for _, part in path)
        for word, wrong in wrong_values(value, rng):
            yield f"{name} = {word}", lambda other, p=path, w=wrong: _edit(other, p, w)
        if path[-1][0] == "attribute" and not _is_setting(model, path):
            yield f"{name} deleted", lambda other, p=path: _delete(other, p)


def _is_setting(model: Any, path: tuple[tuple[str, Any], ...]) -> bool:
    """Whether a path leads to a parameter of an estimator."""
    owner = model
    for step in path[:-1]:
        owner = _get(owner, step)
    return path[-1][1] in getattr(owner, "_get_param_names", list)()


def _delete(owner: Any, path: tuple[tuple[str, Any], ...]) -> None:
    for step in path[:-1]:
        owner = _get(owner, step)
    vars(owner).pop(path[-1][1], None)


# --- edits of files --------------------------------------------------------------------------


def file_mutations(
    content: bytes, rng: np.random.Generator
) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Model files like this one in which one array or one number or name is another.

    Each is made when it is asked for, before the next.
    """
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members.pop("manifest.json")  # whose digests would refuse every edit
    schema = json.loads(members["schema.json"])
    roles = {node.get("file"): place for place, node in _nodes(schema)}
    for name in sorted(members):
        if name.endswith(".npy"):
            array = np.load(io.BytesIO(members[name]))
            for word, wrong in wrong_arrays(array, rng):
                if isinstance(wrong, np.ndarray) and wrong.dtype != object:
                    yield f"{roles.get(name, name)} = {word}", partial(_other, members, name, wrong)
    for place, node in _leaves(schema):
        for word, wrong in wrong_values(json.loads(node["content"]), rng):
            try:
                text = json.dumps(wrong)
            except TypeError:
                continue
            changed = partial(_other, members, "schema.json", schema, (node, "content", text))
            yield f"{place} = {word}", changed
    for place, owner, key in _entries(schema):
        changed = partial(_other, members, "schema.json", schema, (owner, key, None))
        yield f"{place} left out", changed


def _other(members: dict[str, bytes], name: str, content: Any, edit: Any = None) -> bytes:
    """The archive with another member: an array, or the schema with an entry set or left out."""
    out = io.BytesIO()
    if isinstance(content, np.ndarray):
        np.save(out, content, allow_pickle=False)
        return _zipped(members, name, out.getvalue())
    owner, key, text = edit
    kept = dict(owner)
    if text is None:
        del owner[key]
    else:
        owner[key] = text
        owner.pop("__id__", None)  # elsewhere it is told as it was
    changed = json.dumps(content).encode()
    owner.clear()
    owner.update(kept)
    return _zipped(members, name, changed)


def _zipped(members: dict[str, bytes], name: str, content: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for member, kept in members.items():
            archive.writestr(member, content if member == name else kept)
    return out.getvalue()


def _nodes(node: Any, place: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(node, list):
        for number, part in enumerate(node):
            yield from _nodes(part, f"{place}[{number}]")
    elif isinstance(node, dict):
        if "__loader__" in node:
            yield place, node
        for key, part in node.items():
            word = "" if key in ("content", "key_types") else f".{key}"
            if key != "key_types":
                yield from _nodes(part, place + word)


def _leaves(schema: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """The numbers and names of a schema."""
    return ((p, node) for p, node in _nodes(schema) if node["__loader__"] == "JsonNode")


def _entries(schema: Any) -> Iterator[tuple[str, dict[str, Any], str]]:
    """The entries of the dicts of a schema; types of keys stay as many as they were."""
    for place, node in _nodes(schema):
        if node["__loader__"] == "DictNode":
            for key in list(node["content"]):
                yield f"{place}.{key}", node["content"], key


# --- what becomes of a model -----------------------------------------------------------------


def uses(model: Any, X: Any) -> dict[str, Callable[[], Any]]:
    """What a fitted model is for, by name."""
    found = {}
    methods = "predict decision_function predict_proba transform predict_interval predict_set"
    for name in methods.split():
        if hasattr(model, name):
            found[name] = lambda name=name: getattr(model, name)(X)
    feature_map = vars(model).get("feature_map_")
    if isinstance(feature_map, maps.FeatureMap):
        scaled = X
        found["block"] = lambda: feature_map.transform_block(scaled, [0])
        found["features"] = lambda: feature_map.transform(scaled)
    if isinstance(vars(model).get("path_"), dict) and hasattr(model, "at_alpha"):
        found["at_alpha"] = lambda: model.at_alpha(1.0).predict(X)
    return found


def continuations(model: Any, X: Any) -> dict[str, Callable[[], Any]]:
    """What goes on from a fitted model, by name."""
    y = np.asarray(rows()[:, 0])
    if isinstance(vars(model).get("classes_"), np.ndarray):
        y = np.resize(model.classes_, len(y))
    found = {}
    if hasattr(model, "partial_fit"):
        found["partial_fit"] = lambda: model.partial_fit(X, y).predict(X)
    if getattr(model, "warm_start", False) is True:
        found["fit"] = lambda: model.fit(X, y).predict(X)
    return found


def _finite(result: Any) -> bool:
    if np.ndim(result) and np.shape(result)[-1] == 2:  # ends of intervals may be far away
        result = np.nan_to_num(result, nan=np.nan)
    values = result.data if sparse.issparse(result) else np.asarray(result)
    return values.dtype.kind not in "fc" or bool(np.isfinite(values).all())


def outcome(model: Any, expected: dict[str, Any], word: str = "") -> dict[str, str]:
    """What each use of a model comes to: "same", "other", "refused", or what is wrong with it.

    ``expected`` are the results of the model as it was fitted; a broken one may answer otherwise,
    but with as many finite numbers, and not where ``word`` says that no answer can be right.
    """
    said = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        X = expected["data"]
        for name, use in (uses(model, X) | continuations(model, X)).items():
            said[name] = _tried(use, expected.get(name))
            is_map = name == "features" or (
                name == "transform" and isinstance(model, maps.FeatureMap)
            )
            if is_map and said[name].startswith("wrong shape"):
                said[name] = "other"  # a map by itself may have as many features as it says
                continue
            is_free = any(part in word for part in _FREE)
            if said[name] == "other" and name in expected and word.endswith(STRUCTURAL) > is_free:
                said[name] = "silent: another answer"
    return said


def _tried(use: Callable[[], Any], expected: Any) -> str:
    try:
        with np.errstate(all="ignore"):
            result = use()
    except CLEAN as error:
        lines = len(str(error).strip().splitlines())
        return "refused" if lines == 1 else f"not one sentence: {type(error).__name__}: {error}"
    except Exception as error:
        return f"unclean: {type(error).__name__}: {error}"
    if expected is None:
        return "other"
    if np.shape(result) != np.shape(expected):
        return f"wrong shape: {np.shape(result)} for {np.shape(expected)}"
    if not _finite(result) and _finite(expected):
        return "not finite"
    dense = [r.toarray() if sparse.issparse(r) else np.asarray(r) for r in (result, expected)]
    return "same" if np.array_equal(*dense) else "other"


def results(model: Any) -> dict[str, Any]:
    """The data that a model is used on, and what each use of it gives."""
    X = data_of(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {"data": X} | {name: use() for name, use in uses(model, X).items()}


# --- trying them all -------------------------------------------------------------------------


def cases(name: str, way: str, seed: int = 0) -> tuple[dict[str, Any], Iterator[tuple[str, Any]]]:
    """What a model of the zoo gives, and its mutations with functions that make the model."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = pickle.loads(pickle.dumps(zoo()[name]()))  # of a subspace, its base is kept
    rng = np.random.default_rng(seed)
    blob = pickle.dumps(model)

    def edited(apply: Callable[[Any], None]) -> Any:
        other = pickle.loads(blob)
        apply(other)
        return other

    def loaded(content: bytes) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.skops")
            path.write_bytes(content)
            return persistence.load(path)

    def copied(apply: Callable[[Any], None]) -> Any:
        try:
            content = pickle.dumps(edited(apply))
        except Exception as error:  # no copy was made of the broken model
            raise ValueError("no pickle") from error
        return pickle.loads(content)

    if way != "file":
        made = edited if way == "edit" else copied
        found = ((word, lambda a=apply: made(a)) for word, apply in mutations(model, rng))
    else:
        content = persistence.dumps(persistence.SavedModel(model))
        found = ((word, lambda c=c: loaded(c())) for word, c in file_mutations(content, rng))
    return results(model), found


def run(names: list[str], way: str, first: int, step: int) -> None:
    """Try every ``step``-th mutation of models, of the first from a number on, and tell each."""
    # The sanitizer maps far more than it uses.
    if resource is not None and "ASAN_OPTIONS" not in os.environ:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for name in names:
        expected, found = cases(name, way)
        for number, (word, make) in enumerate(found):
            if number < first or number % step:
                continue
            _tell({"name": name, "number": number, "word": word})
            _tell({"said": _said(make, expected, word)})
        first = 0
    _tell({"done": True})


def _said(make: Callable[[], Any], expected: dict[str, Any], word: str) -> dict[str, str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = make()
    except CLEAN as error:
        lines = len(str(error).strip().splitlines())
        return {"made": "refused" if lines == 1 else f"not one sentence: {error}"}
    except Exception as error:
        return {"made": f"unclean: {type(error).__name__}: {error}"}
    return outcome(model, expected, word)


def _tell(what: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(what, default=str) + "\n")
    sys.stdout.flush()


def sweep(names: list[str], way: str, step: int = 1) -> tuple[Counter[str], list[str]]:
    """How often each outcome came of the mutations of models, and a line for each bad one."""
    counts: Counter[str] = Counter()
    bad: list[str] = []
    names, first, done, starts = list(names), 0, False, 0
    while not done and starts < 3:
        command = [sys.executable, __file__, "--", way, str(first), str(step), *names]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as job:
            at, word, number = names[0], "", None
            timer = Timer(15 * SECONDS, job.kill)
            timer.start()
            for line in job.stdout:
                timer.cancel()
                timer = Timer(SECONDS, job.kill)
                timer.start()
                told = json.loads(line)
                done = done or "done" in told
                at, word = told.get("name", at), told.get("word", word)
                number = told.get("number", number)
                for use, said in told.get("said", {}).items():
                    kind = said.split(":")[0]
                    counts[kind] += 1
                    # Attributes of a live model are not checked: any answer will do, or exception.
                    if way != "edit" and kind not in ("refused", "same", "other"):
                        bad.append(f"{at}, {way}, {word}, {use}: {said}")
            timer.cancel()
            job.wait()
        if number is None:
            starts += 1  # a machine may be too busy to start it in time
        elif not done:
            kind = "hang" if job.returncode == -9 else "crash"
            counts[kind] += 1
            bad.append(f"{at}, {way}, {word}: {kind} ({job.returncode})")
            names, first, starts = names[names.index(at) :], number + 1, 0
    if not done:
        bad.append(f"{way} of {names[0]} and others: did not start")
    return counts, bad


def main() -> None:
    """Sweep the models named, or all, and print what came of it."""
    total: Counter[str] = Counter()
    step = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    wanted = sys.argv[1].split(",") if len(sys.argv) > 1 and sys.argv[1] != "all" else list(zoo())
    for name in wanted:
        for way in WAYS:
            counts, bad = sweep([name], way, step)
            total += counts
            sys.stdout.write(f"{name} {way} {dict(counts)}\n" + "".join(f"  {b}\n" for b in bad))
            sys.stdout.flush()
    sys.stdout.write(f"total {dict(total)}\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--"]:
        run(sys.argv[5:], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        main()
