"""Traces that are fetched: whole and known, or not there."""

from __future__ import annotations

import hashlib
import io
import urllib.error
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import IO

import pytest

from harness.core.errors import UsageError
from workloads.download import Download, fetch, fetched, open_url

BODY = b"TIMESTAMP,ContextTokens,GeneratedTokens\n"
TRACE = Download(
    url="https://example.invalid/data/trace.csv",
    sha256=hashlib.sha256(BODY).hexdigest(),
    bytes=len(BODY),
    licence="CC-BY-4.0",
    attribution="somebody",
)


def serving(body: bytes) -> Callable[[str], IO[bytes]]:
    return lambda url: io.BytesIO(body)


def unreachable(url: str) -> IO[bytes]:
    raise urllib.error.URLError("no route")


def test_a_file_is_fetched_once_and_found_afterwards(tmp_path: Path) -> None:
    path = fetch(TRACE, tmp_path, serving(BODY))

    assert path.read_bytes() == BODY
    assert fetched(TRACE, "mine", tmp_path) == path
    assert fetch(TRACE, tmp_path, unreachable) == path


def test_a_damaged_file_is_fetched_again(tmp_path: Path) -> None:
    fetch(TRACE, tmp_path, serving(BODY)).write_bytes(b"cut")

    assert fetch(TRACE, tmp_path, serving(BODY)).read_bytes() == BODY


@pytest.mark.parametrize(
    ("opened", "said"),
    [
        (serving(BODY[:-1]), "has sha256"),
        (serving(BODY + b"more"), "is longer than the 40 bytes"),
        (unreachable, "cannot fetch https://example.invalid/data/trace.csv: .*no route"),
    ],
)
def test_what_is_not_the_file_that_is_meant_leaves_nothing_behind(
    tmp_path: Path, opened: Callable[[str], IO[bytes]], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        fetch(TRACE, tmp_path, opened)

    assert list((tmp_path / "traces").iterdir()) == []


def test_a_trace_that_was_not_fetched_says_its_size_its_licence_and_how(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="CC-BY-4.0.*batchmark workload fetch mine"):
        fetched(TRACE, "mine", tmp_path)


def test_nothing_is_fetched_but_over_https(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no https URL"):
        fetch(replace(TRACE, url="file:///etc/passwd"), tmp_path, open_url)
