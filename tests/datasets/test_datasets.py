"""Named data sets: where they are found, that they are what they claim, how they are split."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import io
import sys
import zipfile

import numpy as np
import pytest
import requests
from scipy import sparse

from _data import shared_data
from mercer import datasets
from mercer.datasets import DataError, Dataset, base, cache, loading, registry
from mercer.datasets.registry import ENTRIES, Entry, File, Prepared

TEXT = b"1 1:2 3:1\n-1 2:1\n1 1:1\n-1 3:4\n"
SHA = hashlib.sha256(TEXT).hexdigest()


class Home:
    """A public home without a network: bytes by URL; everything else cannot be reached."""

    def __init__(self):
        self.files = {}
        self.asked = []

    def get(self, url, **kwargs):
        self.asked.append(url)
        if url not in self.files:
            raise requests.exceptions.ConnectionError(f"cannot reach {url}")
        response = requests.Response()
        response.status_code = 200
        response.raw = io.BytesIO(self.files[url])
        response.headers["content-length"] = str(len(self.files[url]))
        return response


@pytest.fixture(autouse=True)
def home(monkeypatch):
    """No test here reaches a network or a folder of its user."""
    home = Home()
    monkeypatch.setattr(requests, "get", home.get)
    monkeypatch.delenv(cache.VARIABLE, raising=False)
    return home


@pytest.fixture
def folder(tmp_path, monkeypatch):
    path = tmp_path / "folder"
    path.mkdir()
    monkeypatch.setenv(cache.VARIABLE, str(path))
    return path


@pytest.fixture
def add(monkeypatch):
    """Register a small set of 4 rows and 3 features for one test."""

    def register(**fields):
        entry = Entry("toy", "classification", 3, 4, None, "https://home.org", "CC0", "A toy.")
        entry = dataclasses.replace(entry, **{"train": File("https://home.org/toy"), **fields})
        monkeypatch.setitem(ENTRIES, entry.name, entry)
        return entry

    return register


# --- the registry --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ENTRIES)
def test_every_set_says_where_it_comes_from_and_on_what_terms(name):
    entry = ENTRIES[name]
    assert entry.name == name == name.lower()
    assert entry.task in ("classification", "regression")
    assert entry.source.startswith("https://") or (entry.source == "generated" and entry.shipped)
    assert entry.licence
    assert entry.note.endswith(".")
    assert entry.stand_in_for is None or entry.stand_in_for in ENTRIES
    assert not entry.is_sample or entry.stand_in_for
    assert entry.files or entry.prepared or entry.shipped
    for item in (*entry.files, entry.prepared):
        assert item is None or item.sha256 is None or len(bytes.fromhex(item.sha256)) == 32
    for file in entry.files:
        assert file.url.startswith("https://")
        assert " " not in file.name


def test_the_sets_of_the_papers_are_all_known():
    papers = (
        "letter pendigits a9a w8a ijcnn1 cod-rna covtype covtype-mult susy mnist cadata cpu "
        "cpusmall census yearpredictionmsd blogfeedback ujiindoorloc slice-localization sector "
        "rcv1 aloi acoustic kddcup10 house-16h higgs"
    )
    assert set(papers.split()) < set(datasets.names())
    assert datasets.names() == sorted(datasets.names())


def test_different_files_never_share_a_name():
    urls = {}
    for entry in ENTRIES.values():
        for file in entry.files:
            assert urls.setdefault(file.name, file.url) == file.url


def test_names_forgive_case_and_underscores():
    assert datasets.describe("House_16H").name == "house-16h"
    assert datasets.describe("SUSY").n_train == 5_000_000
    with pytest.raises(DataError, match="there is no data set 'covtyp'; did you mean 'covtype'"):
        datasets.load("covtyp")


# --- the shipped set -----------------------------------------------------------------------


def test_letter_loads_without_network_and_is_whole(home):
    letter = datasets.load("letter")
    assert home.asked == []
    assert letter.shape == (15000, 16)
    assert (letter.n_train, letter.n_test) == (15000, 5000)
    assert letter.X.dtype == letter.X_test.dtype == np.float32
    assert set(np.unique(letter.X)) == set(range(16))
    counts = np.bincount(np.concatenate([letter.y, letter.y_test]))
    known = (
        "789 766 736 805 768 775 773 734 755 747 739 761 792 783 753 803 783 758 748 796 813 764 "
        "752 787 786 734"  # of A to Z, from the description of the set
    )
    assert counts[1:].tolist() == [int(count) for count in known.split()]
    assert not letter.is_sample
    assert repr(letter) == (
        "Dataset('letter', classification, 15000 rows, 16 features, 5000 test rows)"
    )


def test_letter_is_small_and_credited():
    data = registry.DATA
    assert (data / "letter.npz").stat().st_size <= 250_000
    credits = (data / "CREDITS.md").read_text()
    for words in ("Slate, D. (1991)", "UCI Machine Learning Repository", "CC BY 4.0", "Changes"):
        assert words in credits


def test_letter_is_the_set_of_the_libsvm_page():
    letter = datasets.load("letter")
    with np.load(shared_data("letter.npz")) as arrays:
        np.testing.assert_allclose(letter.X / 7.5 - 1, arrays["X_train"], atol=1e-6)
        np.testing.assert_array_equal(letter.y, arrays["y_train"])
        np.testing.assert_array_equal(letter.y_test, arrays["y_test"])


def test_flats_is_a_small_mixed_table_in_the_public_domain(home):
    flats = datasets.load("flats")
    assert home.asked == []
    assert (registry.DATA / "flats.csv").stat().st_size <= 30_000
    assert "CC0" in flats.licence
    assert flats.shape == (480, 8)
    assert flats.feature_names == tuple(flats.X.column_names)
    assert {str(kind) for kind in flats.X.schema.types} >= {"string", "date32[day]"}
    assert sum(column.null_count for column in flats.X.columns) > 50
    assert flats.y.dtype == np.float64


def test_flights_are_a_real_table_of_all_months(home):
    flights = datasets.load("flights")
    assert home.asked == []
    assert (registry.DATA / "flights.csv").stat().st_size <= 330_000
    assert flights.licence == "public domain"
    assert flights.shape == (4800, 13)
    assert set(np.unique(flights.y)) == {"late", "on time"}
    months = [day.month for day in flights.X["date"].to_pylist()]
    assert np.bincount(months)[1:].tolist() == [400] * 12
    assert months == sorted(months)


def test_rows_of_a_table_are_split_with_their_targets():
    flats = datasets.load("flats")
    parts = flats.split()
    assert parts.X_train.num_rows == len(parts.y_train) == 360
    pairs = {*zip(*map(tuple, (flats.X["area"].to_pylist(), flats.y)), strict=True)}
    assert {*zip(parts.X_test["area"].to_pylist(), parts.y_test, strict=True)} <= pairs


# --- where sets are found ------------------------------------------------------------------


def test_describe_says_where_a_set_is(add, home, folder, tmp_path):
    entry = add()
    where = {"cache": tmp_path / "cache"}
    description = datasets.describe("toy", **where)
    assert (description.n_train, description.n_features, description.task) == (
        4,
        3,
        "classification",
    )
    assert (description.source, description.licence) == ("https://home.org", "CC0")
    assert description.urls == ("https://home.org/toy",)
    assert description.where == "to be fetched"
    home.files["https://home.org/toy"] = TEXT
    datasets.load("toy", **where)
    assert datasets.describe("toy", **where).where == "in the cache"
    (folder / "toy").write_bytes(TEXT)
    assert datasets.describe("toy", **where).where == "in the folder"
    assert datasets.describe("letter").where == "shipped"
    assert datasets.describe("census").where == "to be put there by hand"
    assert entry.files[0].name == "toy"


def test_a_set_is_fetched_once(add, home, tmp_path):
    add()
    home.files["https://home.org/toy"] = TEXT
    toy = datasets.load("toy", cache=tmp_path)
    np.testing.assert_array_equal(toy.X, [[2, 0, 1], [0, 1, 0], [1, 0, 0], [0, 0, 4]])
    assert toy.X.dtype == np.float32
    assert toy.y.dtype == np.int64
    assert toy.y.tolist() == [1, -1, 1, -1]
    datasets.load("TOY", cache=tmp_path)
    assert len(home.asked) == 1


def test_the_folder_comes_before_the_cache(add, home, folder, tmp_path):
    add(sparse=True)
    (folder / "toy").write_bytes(TEXT)
    toy = datasets.load("toy", cache=tmp_path / "cache")
    assert isinstance(toy.X, sparse.csr_array)
    assert home.asked == []


def test_the_hash_of_the_first_fetch_is_held_against_every_later_one(add, home, tmp_path):
    add()
    url = "https://home.org/toy"
    home.files[url] = TEXT
    datasets.load("toy", cache=tmp_path)
    assert (tmp_path / "toy.sha256").read_text().split() == [SHA, "toy"]
    (tmp_path / "toy").write_bytes(TEXT.replace(b"4", b"5"))
    with pytest.raises(DataError, match=f"not the expected file.*not {SHA}.*delete it to fetch"):
        datasets.load("toy", cache=tmp_path)
    (tmp_path / "toy").unlink()
    home.files[url] = TEXT.replace(b"4", b"5")
    with pytest.raises(DataError, match=f"does not hand out the expected file.*not {SHA}"):
        datasets.load("toy", cache=tmp_path)
    assert not (tmp_path / "toy").exists()
    home.files[url] = TEXT
    assert datasets.load("toy", cache=tmp_path).n_train == 4


def test_a_fetch_cut_off_before_its_hash_was_recorded_is_recorded_later(add, home, tmp_path):
    add()
    (tmp_path / "toy").write_bytes(TEXT)
    datasets.load("toy", cache=tmp_path)
    assert (tmp_path / "toy.sha256").read_text().split()[0] == SHA
    assert home.asked == []


def test_a_known_hash_is_demanded_everywhere(add, home, folder, tmp_path):
    add(train=File("https://home.org/toy", SHA))
    home.files["https://home.org/toy"] = b"1 1:1\n"
    with pytest.raises(DataError, match=f"does not hand out the expected file.*not {SHA}"):
        datasets.load("toy", cache=tmp_path)
    (folder / "toy").write_bytes(b"1 1:1\n")
    found = hashlib.sha256(b"1 1:1\n").hexdigest()
    with pytest.raises(DataError, match=f"SHA-256 is {found}, not {SHA}; replace it or remove it"):
        datasets.load("toy", cache=tmp_path)
    (folder / "toy").write_bytes(TEXT)
    assert datasets.load("toy", cache=tmp_path).n_train == 4


def test_without_network_and_folder_it_says_what_to_get_and_where_to_put_it(add, tmp_path):
    add()
    with pytest.raises(DataError) as caught:
        datasets.load("toy", cache=tmp_path)
    assert str(caught.value) == (
        "the data set 'toy' is not at hand and fetching it failed (ConnectionError): "
        "get toy from https://home.org/toy and put it into a folder that MERCER_DATA names"
    )


def test_a_sample_at_hand_is_offered_but_never_taken(folder, tmp_path):
    (folder / "susy_30k.npz").write_bytes(b"whatever")
    with pytest.raises(DataError, match=rf"folder {folder}; at hand.* is 'susy-sample'$"):
        datasets.load("susy", cache=tmp_path)


def test_a_set_nobody_hands_out_says_how_to_prepare_it(tmp_path, folder):
    with pytest.raises(DataError, match=r"'census' cannot be fetched: write X of 119 .*census.npz"):
        datasets.load("census", cache=tmp_path)
    rng = np.random.default_rng(0)
    np.savez(folder / "census.npz", X=rng.random((5, 119)), y=rng.random(5))
    assert datasets.load("census", cache=tmp_path).shape == (5, 119)
    np.savez(folder / "census.npz", X=rng.random((5, 16)), y=rng.random(5))
    with pytest.raises(DataError, match=r"training part of 'census' has shape \(5, 16\)"):
        datasets.load("census", cache=tmp_path)


def test_data_of_another_shape_do_not_pass_for_the_set(add, folder, tmp_path):
    add(n_train=5)
    (folder / "toy").write_bytes(TEXT)
    with pytest.raises(DataError, match=r"has shape \(4, 3\), not \(5, 3\)"):
        datasets.load("toy", cache=tmp_path)
    add(n_test=2)
    with pytest.raises(DataError, match=r"test part of 'toy' has shape None, not \(2, 3\)"):
        datasets.load("toy", cache=tmp_path)
    add(task="classification")
    (folder / "toy").write_bytes(TEXT.replace(b"-1 3", b"0.5 3"))
    with pytest.raises(DataError, match="labels of 'toy' are not integers"):
        datasets.load("toy", cache=tmp_path)


def test_a_folder_that_is_none_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "absent"))
    with pytest.raises(DataError, match=r"MERCER_DATA must name a folder, got '.*absent'"):
        datasets.load("susy-sample")


def test_without_pooch_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    assert datasets.load("letter").n_train == 15000
    assert datasets.describe("susy").where == "to be fetched"
    with pytest.raises(ImportError, match=r'pip install "mercer\[cli\]"'):
        datasets.load("susy")


def test_the_progress_bar_follows_a_fetch_on_a_terminal(add, home, tmp_path, monkeypatch, capsys):
    add()
    home.files["https://home.org/toy"] = TEXT
    monkeypatch.setenv("FORCE_COLOR", "1")
    datasets.load("toy", cache=tmp_path)
    assert "fetching toy" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    datasets.load("toy", cache=tmp_path / "other")


# --- forms of public files -----------------------------------------------------------------


def test_official_test_parts_get_the_full_width(add, home, tmp_path):
    add(test=File("https://home.org/toy.t"), n_test=1)
    home.files |= {"https://home.org/toy": TEXT, "https://home.org/toy.t": b"1 1:3\n"}
    toy = datasets.load("toy", cache=tmp_path)
    np.testing.assert_array_equal(toy.X_test, [[3, 0, 0]])
    assert toy.split().split_note == "official split, 4 training and 1 test rows"


def test_members_of_an_archive_are_stacked_in_order(add, home, tmp_path):
    url = "https://home.org/a+toy.zip"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("in/day2.csv", "7,8,9,0.5\n")
        archive.writestr("in/day1.csv", "1,2,3,0.25\n4,5,6,0.75\n")
        archive.writestr("in/other.csv", "0\n")
    home.files[url] = packed.getvalue()
    add(
        train=File(url, members=("*day*.csv",)),
        task="regression",
        n_train=3,
        n_features=2,
        features=(1, 3),
        targets=(3, 0),
    )
    toy = datasets.load("toy", cache=tmp_path)
    np.testing.assert_array_equal(toy.X, [[2, 3], [5, 6], [8, 9]])
    np.testing.assert_array_equal(toy.y, [[0.25, 1], [0.75, 4], [0.5, 7]])
    assert (tmp_path / "a_toy.zip").is_file()
    add(train=File(url, members=("*night*.csv",)))
    with pytest.raises(DataError, match=r"holds no \*night\*\.csv"):
        datasets.load("toy", cache=tmp_path)
    (tmp_path / "a_toy.zip").write_bytes(b"PK")
    (tmp_path / "a_toy.zip.sha256").unlink()
    with pytest.raises(DataError, match="truncated or damaged"):
        datasets.load("toy", cache=tmp_path)


def test_tables_with_a_header_give_feature_names(add, home, tmp_path):
    home.files["https://home.org/toy.tsv.gz"] = gzip.compress(b"u\tv\ttarget\n1\t2\t3\n4\t5\t6\n")
    add(train=File("https://home.org/toy.tsv.gz"), n_train=2, n_features=2)
    toy = datasets.load("toy", cache=tmp_path)
    assert toy.feature_names == ("u", "v")
    assert toy.y.tolist() == [3, 6]


# --- real sets -----------------------------------------------------------------------------

PREPARED = [e.name for e in ENTRIES.values() if e.prepared and e.prepared.sha256]


@pytest.mark.parametrize("name", PREPARED)
def test_real_sets_have_their_official_shape_and_hash(name, monkeypatch, home):
    path = shared_data(ENTRIES[name].prepared.name)
    monkeypatch.setenv(cache.VARIABLE, str(path.parent))
    data = datasets.load(name)
    assert home.asked == []
    assert data.X.dtype == np.float32
    assert data.is_sample == ("sample of" in repr(data))
    assert data.feature_names is None or len(data.feature_names) == data.shape[1]
    assert data.y.dtype == (np.int64 if data.task == "classification" else np.float64)


def test_sector_is_read_sparse_from_its_public_form(monkeypatch):
    path = shared_data("sector.t.scale.bz2")
    monkeypatch.setenv(cache.VARIABLE, str(shared_data("sector.scale.bz2").parent))
    assert path.is_file()
    sector = datasets.load("sector")
    assert isinstance(sector.X, sparse.csr_array)
    assert sector.shape == (6412, 55197)
    assert sector.X_test.shape == (3207, 55197)
    assert sector.X.indices.dtype == np.int32


def test_a_sample_never_passes_for_the_whole(monkeypatch, tmp_path):
    monkeypatch.setenv(cache.VARIABLE, str(shared_data("covtype_binary_23k.npz").parent))
    sample = datasets.load("covtype-sample")
    assert sample.is_sample
    assert sample.stand_in_for == "covtype"
    with pytest.raises(DataError, match="at hand, under its own name, is 'covtype-sample'"):
        datasets.load("covtype", cache=tmp_path)


def test_the_many_targets_of_a_file_are_sets_of_their_own(monkeypatch):
    monkeypatch.setenv(cache.VARIABLE, str(shared_data("ujiindoorloc.npz").parent))
    assert datasets.load("ujiindoorloc").y.shape == (19937, 2)
    assert np.unique(datasets.load("ujiindoorloc-floor").y).tolist() == [0, 1, 2, 3, 4]


# --- splits --------------------------------------------------------------------------------


def toy_set(y, task="classification"):
    X = np.arange(len(y), dtype=np.float32)[:, None]
    return Dataset("toy", task, X, np.asarray(y))


def test_a_random_split_parts_the_rows_and_says_so():
    data = toy_set(np.linspace(0, 1, 40), "regression")
    parts = data.split()
    assert parts.split_note == (
        "random split with random_state=0, 30 training and 10 test rows; toy has no official one"
    )
    both = np.concatenate([parts.X_train, parts.X_test]).ravel()
    np.testing.assert_array_equal(np.sort(both), np.arange(40))
    np.testing.assert_array_equal(parts.y_train, data.y[parts.X_train.ravel().astype(int)])
    np.testing.assert_array_equal(parts.X_test, data.split(0.25, 0).X_test)
    assert not np.array_equal(parts.X_test, data.split(0.25, 1).X_test)
    assert not np.array_equal(np.sort(parts.X_train.ravel()), parts.X_train.ravel())


def test_a_series_is_cut_and_not_drawn():
    data = dataclasses.replace(toy_set(np.arange(40) % 2), is_series=True)
    parts = data.split()
    assert "last rows" in parts.split_note
    assert sorted(parts.X_test.ravel()) == list(range(30, 40))
    assert sorted(parts.X_train.ravel()) == list(range(30))


@pytest.mark.parametrize("test_size", [0.1, 0.25, 0.5])
@pytest.mark.parametrize("seed", range(3))
def test_a_stratified_split_keeps_the_share_of_every_class(test_size, seed):
    y = np.repeat([3, -1, 7, 0], [400, 37, 8, 1])
    parts = toy_set(y).split(test_size, seed)
    assert "stratified" in parts.split_note
    for label, count in zip(*np.unique(y, return_counts=True), strict=True):
        taken = np.count_nonzero(parts.y_test == label)
        assert abs(taken - test_size * count) <= 1
    assert 0 in parts.y_train
    assert abs(len(parts.y_test) - test_size * len(y)) <= 1


def test_a_split_that_leaves_nothing_is_an_error():
    with pytest.raises(ValueError, match=r"test_size must be a share between 0 and 1, got 1\.5"):
        toy_set([0, 1]).split(1.5)
    with pytest.raises(ValueError, match=r"test_size=0\.1 of 2 rows leaves one part without"):
        toy_set([0, 0]).split(0.1)


def test_sparse_rows_are_split_too():
    data = Dataset("toy", "classification", sparse.csr_array(np.eye(8)), np.arange(8) % 2)
    assert data.split().X_train.shape == (6, 8)


def test_the_examples_run(check_examples):
    check_examples(base)
    check_examples(loading)


def test_prepared_files_are_named_apart():
    prepared = {e.prepared for e in ENTRIES.values() if isinstance(e.prepared, Prepared)}
    assert len({p.name for p in prepared}) == len(prepared)
    assert registry.ENTRIES is ENTRIES
