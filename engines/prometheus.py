"""Prometheus' text format: read it, and fetch it from an engine."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import NamedTuple

import aiohttp

from harness.core.errors import EngineFailed

_TIMEOUT_S = 5.0
_MOST_BYTES = 16 * 2**20
# A label value may hold anything, with \ before a quote, a backslash and n.
_QUOTED = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_SAMPLE = re.compile(
    rf"""
    (?P<name> [a-zA-Z_:][a-zA-Z0-9_:]* )
    (?: \{{ (?P<labels> [^"}}]* (?: {_QUOTED} [^"}}]* )* ) \}} )?
    \s+ (?P<value> \S+ )
    (?: \s+ -?\d+ )?  \s*         # a timestamp may follow
    """,
    re.VERBOSE,
)
_LABEL = re.compile(rf"\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*({_QUOTED})\s*(?:,\s*|$)")
_ESCAPE = re.compile(r"\\(.)")


class Sample(NamedTuple):
    """One value of a metric, for one set of labels. It may be NaN or infinite."""

    name: str
    labels: Mapping[str, str]
    value: float


def parse(text: str, names: Collection[str] | None = None) -> tuple[Sample, ...]:
    """Every sample of `text`, in its order. Raises ValueError naming the line that is none.

    Where `names` is given, only lines that begin with one of them are looked at, which is ten times
    as fast for a long page.
    """
    samples = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        if names is not None and line.partition("{")[0].partition(" ")[0] not in names:
            continue
        try:
            samples.append(_sample(line))
        except ValueError as error:
            msg = f"line {number} is not a Prometheus sample: {line[:100]!r}"
            raise ValueError(msg) from error
    return tuple(samples)


def _sample(line: str) -> Sample:
    match = _SAMPLE.fullmatch(line)
    if match is None:
        raise ValueError(line)
    return Sample(match["name"], _labels(match["labels"] or ""), float(match["value"]))


def _labels(text: str) -> dict[str, str]:
    labels, at = {}, 0
    while at < len(text):
        match = _LABEL.match(text, at)
        if match is None:
            raise ValueError(text)
        value = match[2][1:-1]
        if "\\" in value:
            value = _ESCAPE.sub(lambda e: "\n" if e[1] == "n" else e[1], value)
        labels[match[1]] = value
        at = match.end()
    return labels


async def fetch(url: str, headers: Mapping[str, str] | None = None) -> str:
    """What GET `url` answers with, as text. Raises EngineFailed when it gives no 2xx in time."""
    timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, headers=headers) as session,
            session.get(url) as response,
        ):
            response.raise_for_status()
            return (await _body(response)).decode()
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        raise _cannot_read(url, error) from error


async def _body(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > _MOST_BYTES:
            msg = f"the page has more than {_MOST_BYTES} bytes"
            raise ValueError(msg)
    return bytes(body)


async def scrape(
    url: str, headers: Mapping[str, str] | None = None, names: Collection[str] | None = None
) -> tuple[Sample, ...]:
    """The samples called `names`, or all, that GET `url` answers with.

    Raises EngineFailed when it does not answer with a metrics page.
    """
    text = await fetch(url, headers)
    try:
        return parse(text, names)
    except ValueError as error:
        raise _cannot_read(url, error) from error


def _cannot_read(url: str, error: Exception) -> EngineFailed:
    said = str(error) or type(error).__name__
    return EngineFailed(f"cannot read metrics from {url}: {said}; is it the engine?")
