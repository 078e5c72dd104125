"""`batchmark workload`: what is sent, and when."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

from harness import console
from harness.commands.preview_tables import preview_tables
from harness.commands.sendables import Asked, Sendable, Traced
from harness.commands.work import open_sendable, tell_source
from harness.core.cache import default_cache_folder
from harness.core.errors import ExitCode, UsageError
from harness.core.load_flags import mix_repeats, names_load, parse_load, require_work
from harness.core.manifest import workload_facts
from harness.core.work_flags import WorkFlags
from harness.core.workload import Workload
from workloads import catalog
from workloads.download import fetch as fetch_trace
from workloads.preview import Preview, preview_arrivals, preview_shapes
from workloads.schedule_file import read_schedule
from workloads.shape import Shape
from workloads.spec import RequestSpec

# What `show` lists; `preview` says all there is to say of more.
_MOST_SHOWN = 200


def list_workloads() -> ExitCode:
    """Print the workloads that ship with batchmark."""
    specs = [catalog.load_spec(name) for name in catalog.names()]
    console.print_table(
        "Workloads",
        ("name", "requests", "prompt tokens", "output tokens", "what it is"),
        [
            (
                spec.name,
                *(("a trace", "", "") if spec.trace is not None else _sums(spec.requests)),
                spec.description,
            )
            for spec in specs
        ],
    )
    return ExitCode.OK


def _sums(rows: tuple[RequestSpec, ...]) -> tuple[str, str, str]:
    prompt, output = (sum(r.prompt_tokens for r in rows), sum(r.output_tokens for r in rows))
    return str(len(rows)), str(prompt), str(output)


def show(flags: WorkFlags) -> ExitCode:
    """Print the arrivals of a workload, and its digests."""
    workload = _build(flags)
    tell_source(workload)
    console.print_table(
        f"{workload.title}, seed {workload.seed}",
        ("request", "label", "due s", "prompt tokens", "output tokens"),
        [
            (
                str(a.request.index),
                a.request.label,
                f"{a.due_ns / 1e9:.3f}",
                str(len(a.request.prompt_token_ids)),
                str(a.request.max_tokens),
            )
            for a in islice(workload.arrivals, _MOST_SHOWN)
        ],
    )
    if (left_out := len(workload.arrivals) - _MOST_SHOWN) > 0:
        console.print_line(f"and {left_out:,} more; `batchmark workload preview` sums up all")
    _print_digests(workload)
    return ExitCode.OK


def preview(flags: WorkFlags) -> ExitCode:
    """Print a workload in figures and bars.

    Texts of a trace are taken apart into tokens only when --tokenizer says by which.
    """
    title, figures = _figures(flags)
    console.print_line(title)
    for table in preview_tables(figures):
        console.draw(table)
    return ExitCode.OK


def fetch(name: str) -> ExitCode:
    """Download the trace that the workload `name` is made of, and say on what terms it is given."""
    download = catalog.load_spec(name).download
    if download is None:
        having = [n for n in catalog.names() if catalog.load_spec(n).download is not None]
        msg = f"{name} is made without a download; those with one are {', '.join(having)}"
        raise UsageError(msg)
    console.print_line(f"{name}: {download.url}, {download.bytes / 1e6:.3g} MB")
    console.print_line(f"licence: {download.licence}; {download.attribution}")
    console.print_line(f"in {fetch_trace(download, default_cache_folder())}")
    return ExitCode.OK


def lock(flags: WorkFlags, out: Path) -> ExitCode:
    """Write everything that would be sent, and when, to the new file `out`."""
    require_work(flags.workload, flags.load, flags.seed)
    sendable, asked = _opened(flags)
    workload = sendable.lock(asked, flags.seed or 0, out)
    tell_source(workload)
    words = f"{workload.title}, seed {workload.seed}"
    console.print_line(f"{words}: {len(workload.arrivals)} requests in {out}")
    _print_digests(workload)
    return ExitCode.OK


def _build(flags: WorkFlags) -> Workload:
    load = parse_load(flags.load)
    require_work(flags.workload, flags.load, flags.seed)
    if flags.load.schedule is not None:
        return read_schedule(flags.load.schedule, load.speed or 1.0, flags.workload)
    sendable, asked = _opened(flags)
    return sendable.workload(asked, flags.seed or 0)


def _opened(flags: WorkFlags) -> tuple[Sendable, Asked]:
    asked = Asked(
        load=parse_load(flags.load) if names_load(flags.load) else None,
        repeat_mix=mix_repeats(flags.load),
        source=flags.source,
        context_tokens=flags.context_tokens,
    )
    return open_sendable(flags.workload or "", asked)


def _figures(flags: WorkFlags) -> tuple[str, Preview]:
    """The workload's title and figures; of a trace its rows, unless texts can be taken apart."""
    require_work(flags.workload, flags.load, flags.seed)
    sendable, asked = _opened(flags) if flags.load.schedule is None else (None, None)
    if not isinstance(sendable, Traced) or asked is None:
        workload = _build(flags)
        tell_source(workload)
        return f"{workload.title}, seed {workload.seed}", preview_arrivals(workload.arrivals)
    seed = flags.seed or 0
    opened = sendable.opened(asked, seed)
    if asked.source.tokenizer is None and asked.source.oversize is None:
        figures = preview_shapes(_with_outputs(opened.shapes, asked.source.output_tokens))
    else:
        figures = preview_arrivals(sendable.arrivals(opened, asked, seed))
    tell_source(Workload(sendable.name, seed, None, opened.load, (), opened.source()))
    return f"{sendable.name} {opened.load}", figures


def _with_outputs(rows: Iterable[Shape], output_tokens: int | None) -> Iterator[Shape]:
    """`rows`, of which those without an answer, and its length, ask for `output_tokens`."""
    for row in rows:
        is_open = row.output_tokens is None and row.answer is None
        yield replace(row, output_tokens=output_tokens) if is_open else row


def _print_digests(workload: Workload) -> None:
    facts = workload_facts(workload)
    console.print_line(f"digest        {facts.digest}")
    console.print_line(f"shape digest  {facts.shape_digest}")
