"""What a command sends: from the words on a command line to something that can be sent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from harness import console
from harness.commands.preview_tables import source_lines
from harness.commands.sendables import Asked, Mix, Sendable, Traced
from harness.core.cache import default_cache_folder
from harness.core.errors import UsageError
from harness.core.source import DAY_S, SourceFlags, require_sound
from harness.core.units import ns_to_s
from harness.core.workload import Workload
from workloads.catalog import load_spec, names
from workloads.download import fetched
from workloads.schedule_file import is_schedule


def open_sendable(name: str, asked: Asked) -> tuple[Sendable, Asked]:
    """What `name` means: a workload of the catalog, a TOML file, or a trace; and how it is sent.

    Raises UsageError when there is none, or when flags do not go with it.
    """
    require_sound(asked.source)
    path = Path(name)
    if name not in names() and path.suffix != ".toml" and path.is_file():
        if is_schedule(path):
            msg = f"{name} is a locked schedule; give it with --schedule {name}"
            raise UsageError(msg)
        return Traced(path, path.name.partition(".")[0]), _of_a_trace(asked, name)
    spec = load_spec(name)
    if spec.trace is not None:
        if spec.download is None:
            msg = f"{name} has a [trace] but no [download] of it; name the trace's file instead"
            raise UsageError(msg)
        path = fetched(spec.download, spec.name, default_cache_folder())
        own = (spec.trace.format, spec.trace.time_unit)
        flags = asked.source
        unit = flags.time_unit or (own[1] if flags.format is None else None)
        source = replace(flags, format=flags.format or own[0], time_unit=unit)
        return Traced(path, spec.name), _of_a_trace(replace(asked, source=source), name)
    if given := asked.source.of_a_trace:
        msg = f"{given[0]} says how a trace is read, and {name} is none; leave out {given[0]}"
        raise UsageError(msg)
    return Mix(spec), asked


def require_meant(workload: Workload, source: SourceFlags) -> None:
    """Raise UsageError for a schedule of more than a day, unless --yes says that it is meant."""
    arrivals = workload.arrivals
    last_s = ns_to_s(arrivals[-1].due_ns) if arrivals else 0.0
    if last_s > DAY_S and not source.yes:
        msg = f"the requests of {workload.name} are due over {last_s / DAY_S:.1f} days"
        raise UsageError(
            f"{msg}; if that is meant add --yes, else see --time-unit, --time-scale, --requests"
        )


def tell_source(workload: Workload) -> None:
    """Print where `workload` was read from, how it was understood, and what was lost."""
    if workload.source is not None:
        for line in source_lines(workload.source):
            console.print_line(line)


def _of_a_trace(asked: Asked, name: str) -> Asked:
    """How a trace is sent: once."""
    if asked.repeat_mix not in (None, 1):
        msg = f"--repeat-mix is {asked.repeat_mix}, but {name} is a trace, which is sent once"
        raise UsageError(f"{msg}; the same prompts again would be found in caches")
    return replace(asked, repeat_mix=None)
