"""Files that commands write where the user says: never over another one unless that is meant."""

from __future__ import annotations

from pathlib import Path

from harness.core.errors import UsageError
from reports.filling import write_whole


def require_free(out: Path, *, replaces: bool) -> None:
    """Raise UsageError where `out` cannot be written, before the minutes that it may take to make.

    A file that is there already is kept unless `replaces`.
    """
    if out.is_dir():
        msg = f"cannot write {out}: it is a folder; name a file in it with --out"
        raise UsageError(msg)
    if not out.parent.is_dir():
        msg = f"cannot write {out}: there is no folder {out.parent}; make it, or name another --out"
        raise UsageError(msg)
    if out.exists() and not replaces:
        msg = f"{out} exists already; replace it with --force, or name another file with --out"
        raise UsageError(msg)


def write_out(out: Path, data: bytes) -> None:
    """Write all of `data` to `out`, or nothing. Raises UsageError where that cannot be done."""
    try:
        write_whole(out, data)
    except OSError as error:
        msg = f"cannot write {out}: {error.strerror}; name another file with --out"
        raise UsageError(msg) from error
