"""Small C files of ours, compiled where they are first used; whoever uses one works without it too.

A library is kept in the cache folder under the digest of its source, so it is built once. Only what
a C compiler's plain command line can build belongs here: no headers but the system's, and those
that stand beside the source.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

from harness.core.cache import default_cache_folder

_FLAGS = ("-O2", "-shared", "-fPIC")
# For arithmetic on all cores: as fast as this very processor can, which is not another's.
NUMERIC = ("-O3", "-march=native", "-fopenmp", "-lm")
_BUILD_TIMEOUT_S = 60.0


def load_compiled(source: Path, flags: tuple[str, ...] = ()) -> ctypes.CDLL | None:
    """The library that `source` compiles to; None where it cannot be built or loaded.

    `flags` are given to the compiler besides the usual ones. `BATCHMARK_COMPILE=0` keeps from
    building, and from using what was built before.
    """
    if os.environ.get("BATCHMARK_COMPILE") == "0":
        return None
    try:
        library = _library_of(source, flags)
        return ctypes.CDLL(str(library), use_errno=True)
    except (OSError, subprocess.SubprocessError):
        return None


def _library_of(source: Path, flags: tuple[str, ...]) -> Path:
    """Where the library of `source` is; it is built now if it is not there."""
    parts = [path.read_bytes() for path in (source, *sorted(source.parent.glob("*.h")))]
    parts += [" ".join(flags).encode(), platform.machine().encode()]
    if "-march=native" in flags:
        parts.append(_processor())
    digest = hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]
    folder = default_cache_folder() / "compiled"
    library = folder / f"{source.stem}-{digest}.so"
    if not library.exists():
        folder.mkdir(parents=True, exist_ok=True)
        _build(source, flags, library)
    return library


def _processor() -> bytes:
    """What this processor can do, as far as the system says: a cache folder may be shared."""
    try:
        lines = Path("/proc/cpuinfo").read_bytes().splitlines()
    except OSError:
        return platform.processor().encode()
    return next((line for line in lines if line.startswith((b"flags", b"Features"))), b"")


def _build(source: Path, flags: tuple[str, ...], library: Path) -> None:
    """Compile into a file of our own, then put it in place whole: others may build it as well."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        msg = "there is no C compiler; install one, or name it in CC"
        raise FileNotFoundError(msg)
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        built = Path(folder) / library.name
        command = [compiler, *_FLAGS, "-o", str(built), str(source), *flags]
        subprocess.run(command, check=True, capture_output=True, timeout=_BUILD_TIMEOUT_S)
        built.replace(library)
