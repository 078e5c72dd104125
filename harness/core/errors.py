"""Every error that a user can meet, and the exit code that it means.

::

    BatchmarkError
    ├── UsageError          2   a flag, a name or a file that the user gave is wrong
    │   ├── ModelFileError  2   a model file is missing, truncated or of another kind
    │   ├── RunFolderError  2   a run folder or a baseline cannot be read
    │   └── TraceError      2   a row of a trace is not what its format says
    ├── EngineFailed        4   the engine did not start, or died; the run is not valid
    └── NotComparable       4   two runs are not alike, so no ratio is given

A message says what happened, the value seen and what to do, in that order.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What the process tells its caller; one meaning per number."""

    OK = 0
    FAIL = 1
    USAGE = 2
    INCONCLUSIVE = 3
    INVALID = 4
    INTERNAL = 5
    INTERRUPTED = 130
    TERMINATED = 143


class BatchmarkError(Exception):
    """An error to be shown as one line, without a traceback."""

    exit_code: ExitCode = ExitCode.INTERNAL


class UsageError(BatchmarkError):
    """A flag, a name or a file that the user gave is wrong."""

    exit_code = ExitCode.USAGE


class ModelFileError(UsageError):
    """A model file is missing, truncated or of another kind."""


class RunFolderError(UsageError):
    """A run folder or a baseline cannot be read."""


class TraceError(UsageError):
    """A row of a trace, or of a file of prompts, is not what its format says."""


class EngineFailed(BatchmarkError):  # noqa: N818 - an event in the field's words
    """The engine did not start, or died; the run is not valid."""

    exit_code = ExitCode.INVALID


class NotComparable(BatchmarkError):  # noqa: N818 - the verdict's own name
    """Two runs are not alike, so no ratio is given."""

    exit_code = ExitCode.INVALID
