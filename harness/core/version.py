"""Which batchmark this is."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def tool_version() -> str:
    """The installed version of batchmark."""
    try:
        return version("batchmark")
    except PackageNotFoundError:
        return "not installed"
