"""How much memory may be taken: the setting, what it leaves, and what refusals say."""

import threading

import numpy as np
import pytest

import mercer
from mercer._runtime import arrays as _array
from mercer._runtime import machine as _machine
from mercer._runtime.arrays import available_memory, check_setting, largest_fitting, row_chunks


@pytest.fixture(autouse=True)
def _no_limit():
    yield
    mercer.set_config(max_memory=None)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (None, None),
        (1000, 1000),
        (np.int64(7), 7),
        ("1000", 1000),
        ("2 kB", 2048),
        ("500MB", 500 * 2**20),
        ("1.5 GiB", 3 * 2**29),
        ("8g", 2**33),
        (".5T", 2**39),
    ],
)
def test_sizes_are_bytes_or_words_in_units_of_1024(said, meant):
    with mercer.config_context(max_memory=said):
        assert mercer.get_config() == {"max_memory": meant, "device": "cpu"}


@pytest.mark.parametrize("said", ["", "GB", "8 GBs", "-1GB", 0, -5, "0"])
def test_what_is_no_size_is_refused(said):
    with pytest.raises(ValueError, match="max_memory must be a positive number of bytes or a size"):
        mercer.set_config(max_memory=said)


@pytest.mark.parametrize("said", [1.5, True, [8]])
def test_what_is_no_kind_of_size_is_refused(said):
    with pytest.raises(TypeError, match="max_memory must be bytes, a size such as '8GB' or None"):
        mercer.set_config(max_memory=said)


def test_a_block_takes_the_place_of_what_is_around_it_and_gives_it_back():
    mercer.set_config(max_memory="3MB")
    with mercer.config_context(max_memory="2MB"):
        with mercer.config_context(max_memory=None):
            assert mercer.get_config()["max_memory"] is None
        assert mercer.get_config()["max_memory"] == 2 * 2**20
    assert mercer.get_config()["max_memory"] == 3 * 2**20


def test_a_block_that_fails_leaves_no_setting_behind():
    with pytest.raises(ZeroDivisionError), mercer.config_context(max_memory="2MB"):
        _ = 1 / 0
    assert mercer.get_config()["max_memory"] is None


def test_the_setting_of_the_program_holds_in_every_thread_and_that_of_a_block_in_one():
    found = []
    mercer.set_config(max_memory="3MB")
    with mercer.config_context(max_memory="2MB"):
        other = threading.Thread(target=lambda: found.append(mercer.get_config()))
        other.start()
        other.join()
    assert found == [{"max_memory": 3 * 2**20, "device": "cpu"}]


def test_what_is_taken_counts_and_what_is_given_back_no_longer():
    if _machine.free_memory() is None:
        pytest.skip("this system does not tell")
    size = 64 * 2**20
    with mercer.config_context(max_memory=2 * size):
        before = available_memory()
        held = np.ones(size // 8)
        during = available_memory()
        del held
        after = available_memory()
    slack = size // 4
    assert before == pytest.approx(2 * size, abs=slack)
    assert during == pytest.approx(size, abs=slack)
    assert after == pytest.approx(2 * size, abs=slack)


def test_never_more_is_available_than_the_machine_has():
    free = available_memory()
    with mercer.config_context(max_memory="900TB"):
        assert available_memory() <= 1.5 * free


def test_the_limits_of_a_container_count(tmp_path, monkeypatch):
    inner, outer = tmp_path / "batch" / "job", tmp_path / "batch"
    inner.mkdir(parents=True)
    for folder, limit in ((inner, "max"), (outer, "5000")):
        (folder / "memory.max").write_text(limit + "\n")
        (folder / "memory.current").write_text("3000\n")
        (folder / "memory.stat").write_text("anon 2000\ninactive_file 500\n")
    assert _machine._room(inner) is None
    assert _machine._room(outer) == 2500
    assert _machine._room(tmp_path) is None
    monkeypatch.setattr(_machine, "_limiting", lambda *_: (outer,))
    assert available_memory() == 2500


def test_chunks_stay_below_a_small_share_of_the_limit():
    assert len(list(row_chunks(1000, 2.0**20))) == 16
    with mercer.config_context(max_memory="64MB"):
        chunks = list(row_chunks(1000, 2.0**20))
    assert len(chunks) == 500
    assert chunks[0] == slice(0, 2)
    assert chunks[-1].stop == 1000


@pytest.mark.parametrize("room", [0, 7, 8, 799, 800, 801, 10**6])
def test_the_largest_setting_that_fits_is_the_largest(room):
    fits = [m for m in range(1, 101) if 8.0 * m**2 <= room]
    assert largest_fitting(lambda m: 8.0 * m**2, 100, room) == max(fits, default=0)


def test_a_refusal_says_what_is_needed_and_which_setting_would_fit(monkeypatch):
    monkeypatch.setattr(_array, "available_memory", lambda: 10 * 2**20)

    def check(n):
        check_setting("block_size", n, lambda b: 1024.0 * b, f"a block of {n} columns", "buy more")

    check(10 * 2**10)
    with pytest.raises(MemoryError) as refusal:
        check(20 * 2**10)
    assert str(refusal.value) == (
        "a block of 20480 columns needs 20.0 MB but 10.0 MB are available; "
        "block_size=10240 would fit."
    )
    monkeypatch.setattr(_array, "available_memory", lambda: 100)
    with pytest.raises(MemoryError, match=r"but 100 B are available; buy more\.$"):
        check(20 * 2**10)
