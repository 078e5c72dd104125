"""Prometheus' text format, as engines write it."""

from __future__ import annotations

import asyncio
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.prometheus import Sample, parse, scrape
from engines.scripted import Script, ScriptedServer
from harness.core.clock import MonotonicClock
from harness.core.errors import EngineFailed


def test_a_sample_has_a_name_labels_and_a_value() -> None:
    text = (
        "# HELP a Of the engine.\n# TYPE a gauge\na 1\n\n"
        'b_total{model="x y",kind="}"} 2.5 1700000000000\n'
        'c{text="say \\"hi\\" \\\\ \\n", } -3e-2\n'
        "ns:d{} +Inf\r\n"
        "e NaN"
    )

    *samples, last = parse(text)

    assert math.isnan(last.value)
    assert samples == [
        Sample("a", {}, 1.0),
        Sample("b_total", {"model": "x y", "kind": "}"}, 2.5),
        Sample("c", {"text": 'say "hi" \\ \n'}, -0.03),
        Sample("ns:d", {}, math.inf),
    ]


def test_one_name_may_have_several_sets_of_labels() -> None:
    found = parse('a{e="0"} 1\na{e="1"} 2\n')
    assert [(sample.labels, sample.value) for sample in found] == [({"e": "0"}, 1), ({"e": "1"}, 2)]


NAMES = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,8}", fullmatch=True)
TEXTS = st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]), max_size=12)


def written(sample: Sample) -> str:
    def escaped(text: str) -> str:
        return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

    labels = ",".join(f'{name}="{escaped(text)}"' for name, text in sample.labels.items())
    return f"{sample.name}{{{labels}}} {sample.value!r}"


@given(
    st.lists(
        st.builds(
            Sample,
            NAMES,
            st.dictionaries(NAMES, TEXTS | st.just("a\nb"), max_size=3),
            st.floats(allow_nan=False),
        )
    )
)
def test_whatever_is_written_is_read_back(samples: list[Sample]) -> None:
    assert list(parse("\n".join(map(written, samples)))) == samples


@pytest.mark.parametrize(
    "line", ["a", "1a 2", "a{ 2", "a one", '{"quoted"} 1', "a 1 b", "a{b=c} 1", 'a{b="c"d="e"} 1']
)
def test_a_line_that_is_no_sample_is_named(line: str) -> None:
    with pytest.raises(ValueError, match="line 2 is not a Prometheus sample"):
        parse(f"ok 1\n{line}\n")


def scripted_scrape(answer: bytes) -> tuple[Sample, ...]:
    async def run() -> tuple[Sample, ...]:
        async with ScriptedServer([Script(((0, answer),))], MonotonicClock()) as server:
            return await scrape(server.url + "/metrics")

    return asyncio.run(run())


def test_scrape_reads_what_the_server_answers() -> None:
    found = scripted_scrape(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\na 1\n")
    assert found == (Sample("a", {}, 1.0),)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\na",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\na \xff1\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n" + b"a 1\n" * 2**23,
        b"",
    ],
)
def test_scrape_says_where_it_could_not_read(answer: bytes) -> None:
    with pytest.raises(EngineFailed, match=r"cannot read metrics from http://127\.0\.0\.1"):
        scripted_scrape(answer)
