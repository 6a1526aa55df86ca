"""Damage to a model file is refused or changes no prediction."""

import io
import json
import warnings
import zipfile

import numpy as np
import pytest

from _model_files import refused
from mercer import KernelRegressor, persistence
from mercer.persistence import manifest

X = np.random.default_rng(0).normal(size=(40, 2))


@pytest.fixture(scope="module")
def content():
    model = KernelRegressor("fourier", n_components=4, random_state=0).fit(X, X[:, 0])
    return persistence.dumps(persistence.SavedModel(model))


def members_of(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def zipped(members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, member in members.items():
            archive.writestr(name, member)
    return out.getvalue()


def predictions(content, path):
    path.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return persistence.load(path).predict(X)


def arrays_of(members):
    return sorted(name for name in members if name.endswith(".npy"))


def test_a_flipped_bit_of_a_member_is_refused_or_changes_no_prediction(content, tmp_path):
    expected = predictions(content, tmp_path / "m.skops")
    members = members_of(content)
    n_refused = 0
    for name, member in members.items():
        for at in range(0, len(member), max(1, len(member) // 12)):
            flipped = member[:at] + bytes([member[at] ^ 1]) + member[at + 1 :]
            try:
                found = predictions(zipped({**members, name: flipped}), tmp_path / "m.skops")
            except ValueError:
                n_refused += 1
            else:
                assert name == manifest.MANIFEST
                np.testing.assert_array_equal(found, expected)
    assert n_refused > 50


def test_a_flipped_byte_of_the_file_is_refused_or_changes_no_prediction(content, tmp_path):
    expected = predictions(content, tmp_path / "m.skops")
    for at in range(0, len(content), max(1, len(content) // 200)):
        flipped = content[:at] + bytes([content[at] ^ 255]) + content[at + 1 :]
        try:
            found = predictions(flipped, tmp_path / "m.skops")
        except ValueError:
            continue
        np.testing.assert_array_equal(found, expected)


def test_swapped_lost_and_added_members_are_refused(content, tmp_path):
    members = members_of(content)
    first, second, *_ = arrays_of(members)
    swapped = {**members, first: members[second], second: members[first]}
    (tmp_path / "m.skops").write_bytes(zipped(swapped))
    assert "is not what was written" in refused(tmp_path / "m.skops")
    (tmp_path / "m.skops").write_bytes(zipped({**members, "more.npy": b""}))
    assert "other members than its manifest names" in refused(tmp_path / "m.skops")


def test_a_file_without_a_manifest_loads(content, tmp_path):
    members = members_of(content)
    del members[manifest.MANIFEST]
    found = predictions(zipped(members), tmp_path / "m.skops")
    np.testing.assert_array_equal(found, predictions(content, tmp_path / "m.skops"))


def changed(content, **entries):
    members = members_of(content)
    stated = {**json.loads(members[manifest.MANIFEST]), **entries}
    return zipped({**members, manifest.MANIFEST: json.dumps(stated).encode()})


def test_a_later_format_is_refused_with_the_version_that_reads_it(content, tmp_path):
    (tmp_path / "m.skops").write_bytes(changed(content, format=2, mercer_version="9.1.0"))
    assert "install mercer 9.1.0 or later" in refused(tmp_path / "m.skops")


def test_a_later_version_of_the_same_format_is_a_warning(content, tmp_path):
    (tmp_path / "m.skops").write_bytes(changed(content, mercer_version="9.1.0"))
    with pytest.warns(UserWarning, match=r"^mercer 9\.1\.0 wrote the model file"):
        persistence.load(tmp_path / "m.skops")
