"""Damage to files: to their bytes, to what is packed inside, and to what they say of themselves."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import zipfile
from typing import Any

import numpy as np
from hypothesis import strategies as st

_TOKENS = (
    b"nan",
    b"inf",
    b"1e999",
    b"-1",
    b"0",
    b"2147483646",
    b"2147483648",
    b"9" * 30,
    b"",
    b"\0",
)
_TOKENS += (
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b'"',
    b"1:2",
    b"#",
    b"0x10",
    b"1_0",
    b"\n",
    b",",
    b" ",
    b"1e-320",
)
_HUGE = (0, 1, 255, 2**31 - 1, 2**32 - 1, 2**63 - 1)
_BOMB = 300 * 2**20  # bytes that a member of a few kilobytes unpacks to
_PACKERS = {".gz": gzip, ".bz2": bz2, ".xz": lzma}


def damaged(draw: Any, name: str, content: bytes, others: list[bytes]) -> tuple[bytes, str]:
    """The content of a file with one kind of damage, and a word for it."""
    suffix = name[name.rfind(".") :]
    if suffix in _PACKERS and draw(st.booleans()):
        packer = _PACKERS[suffix]
        inner, word = damaged(draw, "inner.txt", packer.decompress(content), others)
        return packer.compress(inner), f"{word}, packed again"
    if content.startswith(b"PK") and draw(st.integers(0, 2)):
        with contextlib.suppress(zipfile.BadZipFile, ValueError):  # damaged once already
            return _members(draw, content)
    return _bytes(draw, content, others)


def _bytes(draw: Any, content: bytes, others: list[bytes]) -> tuple[bytes, str]:
    """Bytes flipped, cut, doubled, replaced or spliced."""
    i = draw(st.integers(0, max(0, len(content) - 1)))
    length = draw(st.sampled_from([1, 2, 4, 8, 64, 1000]))
    j = min(len(content), i + length)
    how = draw(st.sampled_from(["flip", "cut", "drop", "double", "token", "number", "splice"]))
    if how == "flip":
        flips = bytes(b ^ 1 << draw(st.integers(0, 7)) for b in content[i : i + min(length, 4)])
        made = content[:i] + flips + content[i + len(flips) :]
    elif how == "cut":
        made = content[:i]
    elif how == "drop":
        made = content[:i] + content[j:]
    elif how == "double":
        made = content[:j] + content[i:]
    elif how == "token":
        token = draw(st.sampled_from(_TOKENS))
        made, how = content[:i] + token + content[j:], f"{token!r} for {length} bytes"
    elif how == "number":
        number, size = draw(st.sampled_from(_HUGE)), draw(st.sampled_from([2, 4, 8]))
        lie = (number % 256**size).to_bytes(size, "little")
        made, how = content[:i] + lie + content[i + size :], f"{number} in {size} bytes"
    else:
        other = draw(st.sampled_from(others))
        made = content[:i] + other[len(other) * i // (len(content) or 1) :]
    return made, f"{how} at {i} of {len(content)}"


def _members(draw: Any, content: bytes) -> tuple[bytes, str]:
    """A ZIP archive whose members are sound and hold something else."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    if len(members) > 1 and draw(st.booleans()):  # digests would refuse most that follows
        members.pop("manifest.json", None)
    name = draw(st.sampled_from(sorted(members)))
    other = draw(st.sampled_from(sorted(members)))
    how = draw(
        st.sampled_from(["header", "header", "swap", "lose", "bytes", "rename", "bomb", "array"])
    )
    if how == "header" and name.endswith(".npy"):
        members[name], how = _header(draw, members[name])
    elif how == "array" and name.endswith(".npy"):
        members[name], how = _array(draw)
    elif how == "swap":
        members[name], members[other] = members[other], members[name]
        how = f"swapped with {other}"
    elif how == "lose":
        del members[name]
    elif how == "rename":
        new = draw(
            st.sampled_from(["../outside.npy", "/root.npy", "a" * 300, "indptr.npy", "X.npy"])
        )
        members[new], how = members.pop(name), f"renamed {new[:20]}"
    elif how == "bomb":
        members[name] = _bomb()
    else:
        members[name], how = _bytes(draw, members[name], [members[other]])
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for member, kept in members.items():
            archive.writestr(member, kept)
    return out.getvalue(), f"{name}: {how}"


def _header(draw: Any, content: bytes) -> tuple[bytes, str]:
    """An array file whose header lies."""
    try:
        array = np.load(io.BytesIO(content), allow_pickle=False)
    except ValueError:
        return content[:7], "no array"
    shape = draw(
        st.sampled_from([(2**62,), (2**31, 2**31), (-1,), (0,), (3, 0), (), (10**6, 3), None])
    )
    kind = draw(
        st.sampled_from(["<f8", "<f4", "|O", "<U9", "<i4", ">f8", "<c16", "|V8", "<M8[s]", "x"])
    )
    header = {"descr": array.dtype.str, "fortran_order": False, "shape": array.shape}
    lie = draw(st.sampled_from(["shape", "descr", "fortran_order", "all"]))
    values = {"shape": shape, "descr": kind, "fortran_order": True}
    header |= values if lie == "all" else {lie: values[lie]}
    text = repr(header).encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    made = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + array.tobytes()
    return made, f"header {header}"


def _array(draw: Any) -> tuple[bytes, str]:
    """Another array, sound in itself."""
    arrays = [
        np.array(3),
        np.array("csr"),
        np.array(["a", "b"]),
        np.array([10**6, -5, 0]),
        np.full((6, 3), np.nan),
        np.full((6, 3), 1e308),
        np.zeros((6, 3, 2)),
        np.zeros((0, 3)),
        np.array(["2020-01-01"], dtype="M8[D]"),
        np.ones(6, dtype=[("a", "f8"), ("b", "i4")]),
        np.ones((6, 3), dtype="c16"),
        np.ones((6, 3), dtype="f2"),
        np.array([2**63], dtype="u8"),
    ]
    array = draw(st.sampled_from(arrays))
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue(), f"array {array.dtype} {array.shape}"


def _bomb() -> bytes:
    """An array file of zeros, which pack to almost nothing."""
    out = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": (_BOMB // 24, 3)}
    np.lib.format.write_array_header_1_0(out, header)
    return out.getvalue() + bytes(_BOMB // 24 * 24)
