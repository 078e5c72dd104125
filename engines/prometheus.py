"""Prometheus' text format: read it, and fetch it from an engine."""

from __future__ import annotations

import re

import aiohttp

from harness.core.errors import EngineFailed

_TIMEOUT_S = 5.0
# A label value may hold anything, with \ before a quote, a backslash and n.
_SAMPLE = re.compile(
    r"""
    (?P<key> [a-zA-Z_:][a-zA-Z0-9_:]* (?: \{ (?: [^"}] | "(?: [^"\\] | \\. )*" )* \} )? )
    \s+ (?P<value> \S+ )
    (?: \s+ -?\d+ )?  \s*         # a timestamp may follow
    """,
    re.VERBOSE,
)


def parse(text: str) -> dict[str, float]:
    """Every sample of `text` by its name, labels kept as written: `requests{kind="a"}`.

    A value may be NaN or infinite. Raises ValueError naming the line that is no sample.
    """
    samples = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _SAMPLE.fullmatch(line)
        if match is None:
            msg = f"line {number} is not a Prometheus sample: {line[:100]!r}"
            raise ValueError(msg)
        samples[match["key"]] = float(match["value"])
    return samples


async def scrape(url: str) -> dict[str, float]:
    """The samples that GET `url` answers with. Raises EngineFailed when it gives none."""
    timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
    try:
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url) as response:
            response.raise_for_status()
            return parse(await response.text())
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        msg = f"cannot read metrics from {url}: {error or type(error).__name__}; is it the engine?"
        raise EngineFailed(msg) from error
