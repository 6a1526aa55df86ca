"""Files that are no models: each is refused by what it is, and none is waited for."""

import os
import pickle
import tarfile

import numpy as np
import pytest

from _model_files import refused
from mercer import KernelRegressor, persistence


def a_numpy_archive(path):
    with open(path, "wb") as file:
        np.savez(file, a=np.zeros(3))


def a_numpy_array(path):
    with open(path, "wb") as file:
        np.save(file, np.zeros(3))


def a_pickle(path):
    path.write_bytes(pickle.dumps(KernelRegressor("binning")))


def a_tar(path):
    with tarfile.open(path, "w:gz"):
        pass


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (a_numpy_archive, "not a model file"),
        (a_numpy_array, "an array of NumPy"),
        (a_pickle, "a pickle, which is not read"),
        (a_tar, "a gzip file"),
        (lambda path: path.write_bytes(b""), "an empty file"),
        (lambda path: path.write_bytes(b"\x89HDF\r\n"), "an HDF5 file"),
        (lambda path: path.write_bytes(b"PK\x03\x04 and no more"), "another archive"),
        (lambda path: path.write_text("a,b,c"), "something else"),
    ],
    ids=["npz", "npy", "pickle", "tar", "empty", "hdf", "zip", "text"],
)
def test_other_files_are_refused_by_name(make, kind, tmp_path):
    make(tmp_path / "m.skops")
    assert kind in refused(tmp_path / "m.skops")


@pytest.mark.skipif(os.name != "posix", reason="needs pipes and devices")
def test_what_is_no_plain_file_is_not_waited_for(tmp_path):
    path = tmp_path / "m.skops"
    os.mkfifo(path)
    for odd in (path, "/dev/zero"):
        with pytest.raises(OSError, match=r"^cannot read .*: it is not a plain file\.$"):
            persistence.load(odd)


def test_links_in_a_circle_are_refused(tmp_path):
    path = tmp_path / "m.skops"
    path.symlink_to(path)
    with pytest.raises(OSError, match=r"^cannot read .*m\.skops: .*\.$"):
        persistence.load(path)
