"""Prometheus' text format, as engines write it."""

from __future__ import annotations

import asyncio
import math

import pytest

from engines.prometheus import parse, scrape
from engines.scripted import Script, ScriptedServer
from harness.core.clock import MonotonicClock
from harness.core.errors import EngineFailed


def test_samples_are_named_with_their_labels_as_written() -> None:
    text = (
        "# HELP a Of the engine.\n# TYPE a gauge\na 1\n\n"
        'b_total{model="x y",kind="}"} 2.5 1700000000000\n'
        'c{text="say \\"hi\\" \\\\"} -3e-2\n'
        "ns:d{} +Inf\r\n"
        "e NaN"
    )

    samples = parse(text)

    assert math.isnan(samples.pop("e"))
    assert samples == {
        "a": 1.0,
        'b_total{model="x y",kind="}"}': 2.5,
        'c{text="say \\"hi\\" \\\\"}': -0.03,
        "ns:d{}": math.inf,
    }


@pytest.mark.parametrize("line", ["a", "1a 2", "a{ 2", "a one", '{"quoted"} 1', "a 1 b"])
def test_a_line_that_is_no_sample_is_named(line: str) -> None:
    with pytest.raises(ValueError, match="line 2 is not a Prometheus sample|could not convert"):
        parse(f"ok 1\n{line}\n")


def scripted_scrape(answer: bytes) -> dict[str, float]:
    async def run() -> dict[str, float]:
        async with ScriptedServer([Script(((0, answer),))], MonotonicClock()) as server:
            return await scrape(server.url + "/metrics")

    return asyncio.run(run())


def test_scrape_reads_what_the_server_answers() -> None:
    assert scripted_scrape(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\na 1\n") == {"a": 1.0}


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\na",
        b"",
    ],
)
def test_scrape_says_where_it_could_not_read(answer: bytes) -> None:
    with pytest.raises(EngineFailed, match=r"cannot read metrics from http://127\.0\.0\.1"):
        scripted_scrape(answer)
