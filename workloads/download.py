"""Traces that others publish: downloaded when the user asks, and known by their sha256."""

from __future__ import annotations

import hashlib
import os
import tempfile
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO
from urllib.parse import urlsplit

from harness.core.errors import UsageError

_PIECE = 1 << 20
_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Download:
    """A file that is somebody else's: where it is, what it is known by, and on what terms.

    `attribution` is what its licence asks to be named with it.
    """

    url: str
    sha256: str
    bytes: int
    licence: str
    attribution: str

    def path_in(self, cache_folder: Path) -> Path:
        """Where the file is kept once it was fetched."""
        return cache_folder / "traces" / PurePosixPath(urlsplit(self.url).path).name


Open = Callable[[str], IO[bytes]]


def open_url(url: str) -> IO[bytes]:
    """The body of `url`. Raises OSError when it cannot be had."""
    if urlsplit(url).scheme != "https":
        msg = f"{url} is no https URL; correct the [download] table"
        raise UsageError(msg)
    body: IO[bytes] = urllib.request.urlopen(url, timeout=_TIMEOUT_S)  # noqa: S310 - https alone
    return body


def fetched(download: Download, name: str, cache_folder: Path) -> Path:
    """The file of workload `name`, which was fetched before. Raises UsageError if it was not."""
    path = download.path_in(cache_folder)
    if path.is_file() and _sha256_of(path) != download.sha256:
        msg = f"{path} is not the trace that {name} means, or was changed; move it away, and run"
        raise UsageError(f"{msg} `batchmark workload fetch {name}`")
    if not path.is_file():
        size = f"{download.bytes / 1e6:.3g} MB, {download.licence}"
        msg = f"the trace of {name} ({size}) is not in {path.parent}"
        raise UsageError(f"{msg}; run `batchmark workload fetch {name}`")
    return path


def fetch(download: Download, cache_folder: Path, opened: Open = open_url) -> Path:
    """The file of `download`, downloaded unless the whole of it is there already.

    It appears in one move, after its length and sha256 were checked: whatever fails before leaves
    nothing behind. Raises UsageError when it cannot be had, or is not the file that is meant.
    """
    target = download.path_in(cache_folder)
    try:
        if target.is_file() and _sha256_of(target) == download.sha256:
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".partial-") as folder:
            partial = Path(folder) / target.name
            found = _save(download, partial, opened)
            if found != download.sha256:
                msg = f"{download.url} has sha256 {found}, not {download.sha256}"
                raise UsageError(f"{msg}; it is another file than the one that is meant")
            partial.replace(target)
    except OSError as error:
        msg = f"cannot fetch {download.url}: {error}; check network and disk, or put the file into"
        raise UsageError(f"{msg} {target.parent} yourself") from error
    return target


def _save(download: Download, path: Path, opened: Open) -> str:
    """Write the body to `path`; returns its sha256. Raises UsageError when it is too long."""
    digest, written = hashlib.sha256(), 0
    with opened(download.url) as body, path.open("wb") as file:
        while piece := body.read(_PIECE):
            written += len(piece)
            if written > download.bytes:
                msg = f"{download.url} is longer than the {download.bytes:,} bytes that are meant"
                raise UsageError(f"{msg}; it is another file")
            digest.update(piece)
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def _sha256_of(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()
