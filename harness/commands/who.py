"""Who is at work: the name that goes beside what is done to a baseline."""

from __future__ import annotations

import getpass
import shutil
import subprocess


def who() -> str:
    """The name that git signs with, or else the user's on this machine; no address, no secret."""
    git = shutil.which("git")
    if git is not None:
        command = [git, "config", "user.name"]
        asked = subprocess.run(command, capture_output=True, text=True, check=False)
        if name := asked.stdout.strip():
            return name
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a user without a name, as in some containers
        return "unknown"
