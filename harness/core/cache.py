"""Where things are kept that can be made again: fetched models, this machine's client ceiling."""

from __future__ import annotations

import os
from pathlib import Path


def default_cache_folder() -> Path:
    """`$BATCHMARK_CACHE`, or `~/.cache/batchmark`."""
    named = os.environ.get("BATCHMARK_CACHE")
    return Path(named) if named else Path.home() / ".cache" / "batchmark"
