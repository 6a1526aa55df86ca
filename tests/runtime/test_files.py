"""Files that are written whole or not at all, by one writer or several."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mercer._runtime import files as _files
from mercer._runtime.files import remove_leftovers, write_atomically

# Holds what it writes open until it is told to end; another process has no lock of ours.
WRITER = """
import sys
from mercer._runtime.files import write_atomically

def content(file):
    file.write(b"new")
    file.flush()
    print("writing", flush=True)
    sys.stdin.read()

write_atomically(sys.argv[1], content)
"""


def leftover(path, token="0123abcd"):
    return path.with_name(f".{path.name}.{token}.tmp")


def test_leftovers_of_killed_writers_go_with_the_next(tmp_path):
    path = tmp_path / "a.bin"
    for token in ("0123abcd", "ffffffff"):
        leftover(path, token).write_bytes(b"half")
    write_atomically(path, b"whole")
    assert path.read_bytes() == b"whole"
    assert list(tmp_path.iterdir()) == [path]


def test_content_is_on_the_disk_before_the_file_has_its_name(tmp_path, monkeypatch):
    path, events = tmp_path / "a.bin", []
    fsync, replace = os.fsync, os.replace

    def synced(number):
        events.append(("fsync", os.fstat(number).st_size))
        fsync(number)

    def replaced(*names):
        events.append(("replace", path.exists()))
        replace(*names)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    write_atomically(path, b"whole")
    assert events == [("fsync", 5), ("replace", False)]


def test_files_of_others_stay(tmp_path):
    path = tmp_path / "a.bin"
    others = [
        tmp_path / name
        for name in (".ab.bin.0123abcd.tmp", ".a.bin.tmp", ".a.bin.0123abcdef.tmp", "a.bin.tmp")
    ]
    for other in others:
        other.write_text("of another")
    write_atomically(path, b"whole")
    assert sorted(tmp_path.iterdir()) == sorted([path, *others])


def test_what_a_living_writer_writes_stays(tmp_path):
    path = tmp_path / "a.bin"
    code = [sys.executable, "-c", WRITER, path]
    with subprocess.Popen(code, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout.readline() == b"writing\n"
        before = list(tmp_path.iterdir())
        remove_leftovers(path)
        assert list(tmp_path.iterdir()) == before
        write_atomically(path, b"meanwhile")
        assert path.read_bytes() == b"meanwhile"
        writer.communicate()
    assert writer.returncode == 0
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_writers_of_one_file_all_succeed(tmp_path):
    path = tmp_path / "a.bin"
    torn = threading.Event()

    def write(number):
        write_atomically(path, bytes([number]) * 10_000)
        content = path.read_bytes()
        if len(content) != 10_000 or len(set(content)) != 1:
            torn.set()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(200)))
    assert not torn.is_set()
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_file_that_is_taken_for_a_leftover_is_made_anew(tmp_path, monkeypatch):
    path = tmp_path / "a.bin"
    removed = []

    def open_and_lose(name, mode):
        file = open(name, mode)  # noqa: SIM115
        if not removed:
            removed.append(name)
            os.unlink(name)
        return file

    monkeypatch.setattr(_files, "open", open_and_lose, raising=False)
    write_atomically(path, b"whole")
    assert removed
    assert path.read_bytes() == b"whole"


@pytest.mark.parametrize("locks", ["none", "refused"])
def test_systems_without_locks_write_too(locks, tmp_path, monkeypatch):
    if locks == "none":
        monkeypatch.setattr(_files, "fcntl", None)
    else:
        monkeypatch.setattr(_files.fcntl, "flock", refused)
    path = tmp_path / "a.bin"
    leftover(path).write_bytes(b"half")
    write_atomically(path, b"whole")
    assert path.read_bytes() == b"whole"
    assert leftover(path).exists() == (locks == "refused")  # who cannot know, leaves it


def refused(*_):
    raise OSError("no locks here")


def test_examples_run(check_examples):
    check_examples(_files)


@pytest.mark.skipif(not hasattr(os, "fchmod"), reason="needs modes")
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o400])
def test_replacing_a_file_keeps_its_mode(tmp_path, mode):
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")
    path.chmod(mode)
    seen = []

    def content(file):
        seen.append(os.fstat(file.fileno()).st_mode & 0o777)
        file.write(b"new")

    write_atomically(path, content)
    assert seen == [mode]
    assert path.stat().st_mode & 0o777 == mode


@pytest.mark.skipif(not hasattr(os, "fchmod"), reason="needs modes")
def test_a_new_file_has_the_mode_of_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "a.bin", b"new")
    finally:
        os.umask(before)
    assert (tmp_path / "a.bin").stat().st_mode & 0o777 == 0o640


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root")
def test_root_keeps_owner_and_group_of_a_replaced_file(tmp_path):
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")
    os.chown(path, 1234, 1235)
    write_atomically(path, b"new")
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 1235)


@pytest.mark.skipif(not hasattr(os, "fchmod"), reason="needs modes")
def test_another_group_gets_no_more_than_everybody(tmp_path, monkeypatch):
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")
    path.chmod(0o664)

    def refused(*_):
        raise PermissionError

    monkeypatch.setattr(_files.os, "fchown", refused)
    write_atomically(path, b"new")
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_file_that_another_writer_removes_meanwhile_is_written(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_text("old")
    plain = Path.exists

    def removed_after(self, **arguments):
        found = plain(self, **arguments)
        path.unlink(missing_ok=True)
        return found

    monkeypatch.setattr(Path, "exists", removed_after)
    write_atomically(path, "new")
    monkeypatch.undo()
    assert path.read_text() == "new"
