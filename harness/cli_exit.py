"""How a command ends: with an exit code, one line for an error, a traceback only for a bug."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from typing import NoReturn

import typer

from harness.core.errors import BatchmarkError, ExitCode


def finish(body: Callable[[], ExitCode]) -> NoReturn:
    """Run a command and leave with its exit code; an error is a line, only a bug is a traceback."""
    try:
        code = body()
    except BatchmarkError as error:
        typer.echo(f"error: {error}", err=True)
        code = error.exit_code
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        code = ExitCode.INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output has gone; there is nobody left to tell
        code = ExitCode.OK
    except Exception:  # noqa: BLE001 - the outermost door: a crash must not look like a verdict
        traceback.print_exc()
        typer.echo("internal error: this is a fault of batchmark, please report it", err=True)
        code = ExitCode.INTERNAL
    raise typer.Exit(int(code))
