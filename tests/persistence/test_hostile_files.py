"""Model files made to do harm: nothing of them runs, and each is refused in one sentence."""

import io
import json
import pickle
import subprocess
import sys
import zipfile
import zlib

import numpy as np
import pytest
from scipy import sparse

from _model_files import refused
from mercer import KernelClassifier, KernelRegressor, maps, persistence
from mercer.persistence import audit

X = np.random.default_rng(0).normal(size=(40, 3))


@pytest.fixture(scope="module")
def content():
    model = KernelRegressor(n_components=4, random_state=0).fit(X, X[:, 0])
    return persistence.dumps(persistence.SavedModel(model))


def parts(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members.pop("manifest.json")  # an attacker leaves it out, or writes other digests
    return members, json.loads(members.pop("schema.json"))


def written(path, members, schema=None, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        if schema is not None:
            archive.writestr("schema.json", json.dumps(schema))


def fields(schema):
    """The entries of the model's state."""
    return schema["content"]["content"]["model"]["content"]["content"]


# --- nodes of skops that make and call things ------------------------------------------------


def text(value):
    node = {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode"}
    return node | {"content": json.dumps(value), "is_json": True}


def collection(loader, kind, *content):
    return {
        "__class__": kind,
        "__module__": "builtins",
        "__loader__": loader,
        "content": list(content),
    }


def a_dict(**content):
    keys = [{"__class__": "str", "__module__": "builtins", "__loader__": "TypeNode"}] * len(content)
    return collection("DictNode", "dict") | {
        "content": content,
        "key_types": collection("ListNode", "list", *keys),
    }


def own(**content):
    """A node that names a class of mercer's, which is trusted."""
    return {"__class__": "Ridge", "__module__": "mercer.penalties", **content}


def attacks(trace):
    command = f"touch {trace}"
    arguments = collection("TupleNode", "tuple", text(command))
    system = {"__class__": "system", "__module__": "posix", "__loader__": "TypeNode"}
    model = {"__class__": "KernelRegressor", "__module__": "mercer.estimators.regression"}
    hidden = {"__class__": "L2", "__module__": "mercer.penalties"}
    yield "function", system | {"__loader__": "FunctionNode", "__module__": "os"}
    yield "type", system
    yield (
        "operator",
        {
            "__class__": "call",
            "__module__": "operator",
            "__loader__": "OperatorFuncNode",
            "attrs": collection("TupleNode", "tuple", system, text(command)),
        },
    )
    yield "operator in disguise", hidden | {"__loader__": "OperatorFuncNode", "attrs": arguments}
    for name in ("fit", "__reduce__", "__init__"):
        yield (
            f"method {name}",
            model
            | {
                "__loader__": "MethodNode",
                "content": {"func": name, "obj": model | {"__loader__": "ObjectNode"}},
            },
        )
    yield "constructor", hidden | {"__loader__": "ConstructorFromReduceNode", "content": arguments}
    yield "reduce", hidden | {"__loader__": "ReduceNode", "reduce": {"args": arguments}}
    yield (
        "partial",
        {
            "__class__": "partial",
            "__module__": "functools",
            "__loader__": "PartialNode",
            "content": dict.fromkeys(("func", "args", "kwds", "namespace"), arguments),
        },
    )
    for loader in ("ListNode", "TupleNode", "SetNode"):
        yield f"own class as {loader}", hidden | {"__loader__": loader, "content": [text(command)]}
    yield "own class as dict", a_dict() | {"__class__": "L2", "__module__": "mercer.penalties"}
    yield "own class as type", hidden | {"__loader__": "TypeNode"}
    yield "default dict", a_dict() | {"__class__": "defaultdict", "__module__": "collections"}
    yield (
        "foreign object",
        {"__class__": "Popen", "__module__": "subprocess"}
        | {
            "__loader__": "ObjectNode",
            "content": a_dict(args=text(command)),
        },
    )
    yield (
        "module with a dot",
        {"__class__": "system", "__module__": "mercer.persistence.os"}
        | {"__loader__": "ObjectNode"},
    )
    yield (
        "compiled tree",
        {"__class__": "DecisionTreeRegressor", "__module__": "sklearn.tree"}
        | {
            "__loader__": "ObjectNode",
            "__module__": "sklearn.tree._classes",
        },
    )
    generator = {"__class__": "Generator", "__module__": "numpy.random._generator"}
    for name in ("seed", "set_bit_generator", "RandomState"):
        yield (
            f"generator {name}",
            generator
            | {
                "__loader__": "RandomGeneratorNode",
                "content": {
                    "bit_generator": a_dict(bit_generator=text(name)),
                    "seed_seq": a_dict(entropy=text(1)),
                },
            },
        )


NAMES = [name for name, _ in attacks("")]


@pytest.mark.parametrize("name", NAMES)
def test_nodes_that_make_or_call_things_are_refused_and_nothing_runs(name, content, tmp_path):
    trace, path = tmp_path / "trace", tmp_path / "m.skops"
    members, schema = parts(content)
    fields(schema)["alpha"] = dict(attacks(trace))[name]
    written(path, members, schema)
    assert "does not trust" in refused(path) or "generator of random numbers" in refused(path)
    assert not trace.exists()


def test_positions_of_generators_stay_in_their_tables(tmp_path):
    random_state = np.random.RandomState(0)
    model = KernelRegressor(random_state=random_state, n_components=4).fit(X, X[:, 0])
    members, schema = parts(persistence.dumps(persistence.SavedModel(model)))
    state = fields(schema)["random_state"]["content"]["content"]["state"]["content"]
    path = tmp_path / "m.skops"
    written(path, members, schema)
    again = persistence.load(path)
    assert again.random_state.randint(10**9) == random_state.randint(10**9)
    for wrong in (625, -1, 10**9, "5"):
        state["pos"]["content"] = json.dumps(wrong)
        written(path, members, schema)
        assert "pos of a generator" in refused(path)


def test_a_state_sets_no_methods_and_no_dunders(content, tmp_path):
    path = tmp_path / "m.skops"
    for name in ("predict", "_check_state", "__class__", "__setstate__"):
        members, schema = parts(content)
        state = schema["content"]["content"]["model"]["content"]
        state["content"][name] = text(3)
        state["key_types"]["content"].append(state["key_types"]["content"][0])
        written(path, members, schema)
        assert f"{name} of KernelRegressor is not to be set by a file" in refused(path)


# --- sizes -----------------------------------------------------------------------------------


def bomb(n_bytes):
    """Zeros in the form of an array, and the array's header."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        file, {"descr": "<f8", "fortran_order": False, "shape": (n_bytes // 8,)}
    )
    return file.getvalue() + bytes(n_bytes)


def test_a_file_that_unpacks_to_far_more_is_refused(content, tmp_path):
    members, schema = parts(content)
    members["1.npy"] = bomb(2**26)
    path = tmp_path / "m.skops"
    written(path, members, schema, zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 2**18
    assert "bytes unpack to" in refused(path)


def test_many_members_of_one_place_are_refused(content, tmp_path):
    # Every entry of the directory points at the same packed bytes.
    members, schema = parts(content)
    path = tmp_path / "m.skops"
    written(path, members, schema)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("0.npy", bomb(2**19))
        first = archive.getinfo("0.npy")
        for number in range(1, 100):
            other = zipfile.ZipInfo(f"{number}.npy")
            for name in ("compress_type", "CRC", "compress_size", "file_size", "header_offset"):
                setattr(other, name, getattr(first, name))
            archive.filelist.append(other)
            archive.NameToInfo[other.filename] = other
    assert "bytes unpack to" in refused(path)


def test_what_is_said_of_sizes_is_held_to(content, tmp_path):
    members, schema = parts(content)
    path = tmp_path / "m.skops"
    array = bomb(2**22)
    name = next(name for name in members if name.endswith(".npy"))
    members[name] = array
    written(path, members, schema, zipfile.ZIP_DEFLATED)
    packed = path.read_bytes()
    size = len(array).to_bytes(4, "little")
    assert packed.count(size) >= 2
    path.write_bytes(packed.replace(size, (100).to_bytes(4, "little")))
    refused(path)


def test_a_file_that_would_not_fit_is_refused_by_its_size(content, tmp_path, monkeypatch):
    path = tmp_path / "m.skops"
    path.write_bytes(content)
    monkeypatch.setattr("mercer._runtime.arrays.available_memory", lambda: 1000)
    with pytest.raises(MemoryError, match=r"reading .*m\.skops needs"):
        persistence.load(path)


def test_an_inner_archive_that_unpacks_to_far_more_is_refused(tmp_path):
    rows = sparse.csr_array(X)
    model = KernelRegressor("exact").fit(rows, X[:, 0])
    members, schema = parts(persistence.dumps(persistence.SavedModel(model)))
    name = next(name for name in members if name.endswith(".npz"))
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data.npy", bomb(2**26))
    members[name] = inner.getvalue()
    path = tmp_path / "m.skops"
    written(path, members, schema)
    assert "unpack to" in refused(path)


def test_lists_of_lists_are_no_larger_than_the_file(content, tmp_path):
    members, schema = parts(content)
    node = collection("ListNode", "list", text("laugh"))
    node["__id__"] = 10
    for number in range(11, 60):
        short = collection("ListNode", "list") | {"__id__": node["__id__"]}
        node = collection("ListNode", "list", node, *[short] * 9) | {"__id__": number}
    fields(schema)["alpha"] = node
    path = tmp_path / "m.skops"
    written(path, members, schema)
    assert "tells one object in two ways" in refused(path)


@pytest.mark.parametrize("depth", [300, 100_000])
def test_a_schema_of_enormous_depth_is_refused(depth, content, tmp_path):
    members, _ = parts(content)
    path = tmp_path / "m.skops"
    begin = '{"__class__": "list", "__module__": "builtins", "__loader__": "ListNode", "content": ['
    written(path, members | {"schema.json": '{"protocol": 2, ' + begin[1:] + begin * depth})
    assert "damaged" in refused(path)  # it ends in the middle
    members["schema.json"] = '{"protocol": 2, ' + begin[1:] + begin * depth + "]}" * (depth + 1)
    written(path, members)
    assert "nested too deeply" in refused(path)


def test_huge_settings_are_refused_by_what_they_do_not_fit(tmp_path):
    # A map of 2**31 - 1 columns would be made for ever.
    for name in ("fourier", "ngrams", "perceptron"):
        rows = ["a b c d"] * 20 + ["d c b a"] * 20 if name == "ngrams" else X
        model = KernelRegressor(name, n_components=4, random_state=0).fit(rows, X[:, 0])
        members, schema = parts(persistence.dumps(persistence.SavedModel(model)))
        state = fields(schema)["feature_map_"]["content"]["content"]
        for setting in ("n_components", "n_features_out_"):
            state[setting] = text(2**31 - 1)
        path = tmp_path / "m.skops"
        written(path, members, schema)
        assert "map_coef_ of a fitted KernelRegressor must be" in refused(path)


# --- members ---------------------------------------------------------------------------------


def lying(shape, dtype="<f8", content=b""):
    file = io.BytesIO()
    header = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue() + content


@pytest.mark.parametrize(
    "array",
    [
        lying((2**40,), content=bytes(64)),
        lying((2**62, 8), content=bytes(64)),
        lying((3,), content=bytes(64)),
        lying((-8,), content=bytes(64)),
        lying((1,), "|O", pickle.dumps(np.zeros(1))),
        lying((8,), content=bytes(64))[:40],
        pickle.dumps(np.zeros(3)),
        b"",
        zlib.compress(b"array"),
    ],
    ids=["large", "overflow", "short", "negative", "objects", "cut", "pickle", "empty", "packed"],
)
def test_arrays_that_are_none_are_refused(array, content, tmp_path):
    members, schema = parts(content)
    name = next(name for name in members if name.endswith(".npy"))
    path = tmp_path / "m.skops"
    written(path, members | {name: array}, schema)
    assert name in refused(path)


def test_a_member_given_twice_is_refused(content, tmp_path):
    path = tmp_path / "m.skops"
    path.write_bytes(content)
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("schema.json", "{}")
    assert "two members of one name" in refused(path)


def test_a_member_that_is_missing_is_named(content, tmp_path):
    members, schema = parts(content)
    name = next(name for name in members if name.endswith(".npy"))
    del members[name]
    path = tmp_path / "m.skops"
    written(path, members, schema)
    assert name in refused(path)


def test_an_array_of_many_objects_is_refused(content, tmp_path):
    members, schema = parts(content)
    state = schema["content"]["content"]["model"]["content"]["content"]
    array = next(node for node in state.values() if node["__loader__"] == "NdArrayNode")
    copy = dict(array) | {"__id__": 12345}
    state["alpha"] = copy
    path = tmp_path / "m.skops"
    written(path, members, schema)
    assert "two objects are made of" in refused(path)


# --- what stands beside the model ------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("model", 3),
        ("task", "clustering"),
        ("task", 3),
        ("target", 3),
        ("feature_names", "abc"),
        ("feature_names", [1, 2, 3]),
        ("settings", []),
        ("mercer_version", None),
    ],
)
def test_what_stands_beside_the_model_has_its_type(field, wrong, content, tmp_path):
    members, schema = parts(content)
    node = collection("ListNode", "list", *map(text, wrong)) if type(wrong) is list else text(wrong)
    schema["content"]["content"][field] = node
    path = tmp_path / "m.skops"
    written(path, members, schema)
    assert f"{field} of a fitted SavedModel must" in refused(path)


def test_only_classes_that_models_are_made_of_are_trusted():
    names = persistence._own_types()
    assert not [name for name in names if name.startswith(("mercer._", "mercer.cli"))]
    designs = [name for name in names if name.startswith("mercer.designs")]
    assert designs == ["mercer.designs.occupancy.Occupancy"]


def test_a_name_alone_tells_whether_its_class_is_trusted():
    """As the list of all of them does."""
    own = persistence._OwnTypes()
    assert [name for name in persistence._own_types() if name not in own] == []
    others = [
        "mercer.cli.app.Commands",
        "mercer._runtime.state.State",
        "mercer.estimators.base.BaseEstimator",  # of scikit-learn
        "mercer.estimators.nothing.KernelRegressor",
        "mercer.estimators.KernelRegressor",  # defined elsewhere
        "mercer.estimators.__init__.KernelRegressor",
        "mercer.estimators..regression.KernelRegressor",
        "mercer.estimators",
        "os.system",
        "",
    ]
    assert [name for name in others if name in own] == []
    assert own.met == persistence._own_types()


def test_a_file_brings_in_what_it_names_alone(content, tmp_path):
    path = tmp_path / "m.skops"
    path.write_bytes(content)
    code = (
        "import sys\nfrom mercer import persistence\npersistence.load(sys.argv[1])\n"
        "print('mercer.auto' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


def test_sound_models_pass_the_audit():
    label = np.array(["a", "b"])[(X[:, 0] > 0).astype(int)]
    for random_state in (0, np.random.RandomState(0), np.random.default_rng(0)):
        model = KernelClassifier(
            maps.Nystroem(n_components=5), random_state=random_state, n_jobs=1
        ).fit(X, label.astype(object))
        content = persistence.dumps(persistence.SavedModel(model))
        assert audit.foreign_type(content, persistence._own_types()) is None
