"""One word for how a server is launched: two launches of one plan have the same."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from harness.core.engine import LaunchPlan

# What follows these words names this one launch, and changes nothing in how the server behaves.
_LABELS = ("--port", "--name")


def fingerprint(plan: LaunchPlan, folder: Path) -> str:
    """sha256, in hex, of all in `plan` that decides how the server behaves.

    The port, the run's `folder`, where the program lies and the names of the variables that hold
    keys are left out. A plan that attaches to a server has that of the server's address alone.
    """
    where = plan.base_url if not plan.argv else ""
    program, *words = plan.argv or ("",)
    argv = [
        "*" if before in _LABELS else _plain(word, plan, folder)
        for before, word in zip((program, *words), words, strict=False)
    ]
    env = {name: _plain(value, plan, folder) for name, value in plan.env.items()}
    files = {name: _plain(text, plan, folder) for name, text in plan.files.items()}
    value = [where, Path(program).name, argv, env, files, sorted(plan.keys)]
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _plain(text: str, plan: LaunchPlan, folder: Path) -> str:
    """`text` without the run's folder, and without the port of the server's address."""
    for path in (str(folder.resolve()), str(folder)):
        text = text.replace(f"{path}/", "*/")
    host, _, port = plan.base_url.rpartition("://")[2].rpartition(":")
    return re.sub(rf"{re.escape(host)}:{port}\b", f"{host}:*", text)
