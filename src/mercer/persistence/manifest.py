"""The manifest of a model file: format, version of mercer, and a digest of every other member.

The digests find accidental damage that the checksums of the archive miss, such as a member that was
changed and packed again. They are no defence against an attacker, who can write new digests.
"""

from __future__ import annotations

import io
import json
import re
import warnings
import zipfile
from hashlib import sha256

from mercer import __version__
from mercer.persistence.audit import Damaged

__all__ = ["MANIFEST", "check_manifest", "with_manifest"]

MANIFEST = "manifest.json"
_FORMAT = 1  # of the file; a reader refuses files of a later format


def with_manifest(content: bytes) -> bytes:
    """The archive with a manifest as its last member."""
    file = io.BytesIO(content)
    with zipfile.ZipFile(file, "a") as archive:
        names = sorted(archive.namelist())
        packing = archive.infolist()[0].compress_type
        manifest = {
            "format": _FORMAT,
            "mercer_version": __version__,
            "sha256": {name: _digest(archive, name) for name in names},
        }
        archive.writestr(MANIFEST, json.dumps(manifest), packing)
    return file.getvalue()


def check_manifest(content: bytes) -> None:
    """Raise ``Damaged`` for members unlike the manifest, if any, or a later format.

    A known format of a later mercer is a UserWarning.
    """
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        names = set(archive.namelist())
        if MANIFEST not in names:
            return
        manifest = json.loads(archive.read(MANIFEST))
        try:
            form, version, digests = (manifest[k] for k in ("format", "mercer_version", "sha256"))
            is_later = form > _FORMAT
        except (KeyError, TypeError) as error:
            raise Damaged("its manifest is none that mercer writes") from error
        if is_later:
            raise Damaged(
                f"mercer {version} wrote it in format {form}, and mercer {__version__} reads "
                f"formats up to {_FORMAT}; install mercer {version} or later to read it"
            )
        if names - {MANIFEST} != set(digests):
            raise Damaged("it has other members than its manifest names")
        for name, digest in digests.items():
            if _digest(archive, name) != digest:
                raise Damaged(f"{name} is not what was written")
    if _numbers(version) > _numbers(__version__):
        warnings.warn(
            f"mercer {version} wrote the model file, and mercer {__version__} reads it; "
            f"predictions may differ, so install mercer {version} or later.",
            UserWarning,
            stacklevel=4,
        )


def _digest(archive: zipfile.ZipFile, name: str) -> str:
    return sha256(archive.read(name)).hexdigest()


def _numbers(version: str) -> tuple[int, ...]:
    """Release numbers of a version, such as (0, 2, 0)."""
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])
