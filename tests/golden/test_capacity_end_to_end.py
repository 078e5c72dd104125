"""`batchmark sweep` and `batchmark capacity`, on a tiny model and on a server of known capacity."""

from __future__ import annotations

import http.server
import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.core.jsonable import from_json
from harness.gate.probing import Capacity
from harness.gate.sweep import Sweep

SERVICE_S = 0.02
BEARS_RPS = 1 / SERVICE_S
EVENTS = "".join(
    f"data: {json.dumps(event)}\n\n"
    for event in (
        {"choices": [{"text": "a", "token_ids": [1], "finish_reason": None}]},
        {"choices": [{"text": "b", "token_ids": [2, 3, 4], "finish_reason": "length"}]},
        {"choices": [], "usage": {"prompt_tokens": 20, "completion_tokens": 4}},
    )
)
SAME = """
name = "same"
description = "one short request, over and again"
token_ids = [10, 250]
requests = [{ label = "A", prompt_tokens = 20, output_tokens = 4 }]
"""


class OneAtATime(http.server.BaseHTTPRequestHandler):
    """A queue with one server, which takes SERVICE_S for each request."""

    protocol_version = "HTTP/1.1"
    turn = threading.Lock()

    def do_GET(self) -> None:
        self._say("application/json", json.dumps({"data": [{"id": "m", "max_model_len": 4096}]}))

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        with self.turn:
            time.sleep(SERVICE_S)  # this is the service that is measured
        self._say("text/event-stream", EVENTS + "data: [DONE]\n\n")

    def _say(self, kind: str, text: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), OneAtATime)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def tiny(program: Any, command: str, *words: str, out: str = "job") -> Any:
    return program(
        command, "tiny.toml", "--model", str(program.model), "--dtype", "float32", "--slots", "4",
        "--threads", "1", "--seed", "5", "--out", out, *words,
    )  # fmt: skip


def read(path: Path) -> Any:
    return json.loads(path.read_text())


@pytest.mark.slow
def test_a_sweep_is_a_run_for_each_load_with_fresh_prompts_a_table_and_a_page(program: Any) -> None:
    result = tiny(program, "sweep", "--concurrencies", "1,2,4")
    job = program.folder / "job"

    assert result.returncode in (0, 4), result.stderr
    assert "Traceback" not in result.stderr
    found = from_json(Sweep, read(job / "sweep.json"))
    assert [point.level for point in found.points] == [1, 2, 4]
    names = [f"inhouse-continuous-concurrency-{n}" for n in (1, 2, 4)]
    assert {p.name for p in job.iterdir()} == {*names, "sweep.json", "sweep.html", "preflight.json"}
    manifests = [read(job / name / "manifest.json") for name in names]
    assert [m["workload"]["seed"] for m in manifests] == [5, 6, 7] == [p.seed for p in found.points]
    assert len({m["workload"]["digest"] for m in manifests}) == 3
    assert [m["workload"]["requests"] for m in manifests] == [12, 20, 40], "ten turns of a slot"
    assert "inhouse-continuous at 1 to 4 in flight (tiny-llama fp32, " in result.stdout
    assert "against throughput" in (job / "sweep.html").read_text()
    assert program("show", f"job/{names[0]}").returncode == 0


@pytest.mark.slow
def test_at_rates_requests_arrive_for_as_long_as_asked_and_json_is_alone_on_stdout(
    program: Any,
) -> None:
    result = tiny(program, "sweep", "--points", "2", "--from", "10", "--to", "20", "--window-s", "1", "--policy", "static,continuous", "--json")  # fmt: skip
    data = json.loads(result.stdout)

    assert [(p["level"], p["engine"]) for p in data["points"]] == [
        (10, "inhouse-static"), (10, "inhouse-continuous"),
        (20, "inhouse-static"), (20, "inhouse-continuous"),
    ]  # fmt: skip
    folders = [program.folder / "job" / point["run"]["run"] for point in data["points"]]
    facts = [read(folder / "manifest.json") for folder in folders]
    assert [f["workload"]["requests"] for f in facts] == [12, 12, 20, 20]
    assert facts[0]["workload"]["digest"] == facts[1]["workload"]["digest"]
    in_turn = sorted(range(4), key=lambda i: facts[i]["start_ns"])
    assert in_turn == [0, 1, 3, 2], "engines change places from load to load"


def test_an_engine_that_cannot_start_is_tried_once_and_the_sweep_says_why(program: Any) -> None:
    result = tiny(program, "sweep", "--concurrencies", "1,2", "--kv-tokens", "8")

    assert result.returncode == 4
    assert "inhouse-continuous-concurrency-1 is FAILED" in result.stderr
    points = read(program.folder / "job/sweep.json")["points"]
    assert [point["run"]["outcome"] for point in points] == ["FAILED", "NOT RUN"]
    assert "8 tokens" in points[0]["run"]["why"]
    assert {value["value"] for point in points for value in point["values"]} == {None}


@pytest.mark.slow
def test_the_capacity_of_a_queue_is_bracketed_around_what_it_bears(program: Any, url: str) -> None:
    (program.folder / "same.toml").write_text(SAME)
    result = program(
        "capacity", "same.toml", "--engine", "openai", "--attach", url, "--slots", "1",
        "--slo", "ttft_p50=250ms", "--from", "12", "--window-s", "2", "--precision", "0.5",
        "--seed", "5", "--out", "job",
    )  # fmt: skip
    job = program.folder / "job"

    assert result.returncode in (0, 3), result.stderr
    found = from_json(Capacity, read(job / "capacity.json"))
    runs = [probe.run for probe in found.probes]
    assert all((job / run / "summary.json").exists() for run in runs)
    assert [probe.seed for probe in found.probes] == [5 + i for i in range(len(runs))]
    assert found.bracket.not_met is not None, result.stdout
    assert found.bracket.not_met > 0.6 * BEARS_RPS
    assert found.bracket.met is not None, result.stdout
    assert found.bracket.met < 1.4 * BEARS_RPS
    assert "ttft_p50=250ms" in result.stdout
    assert "req/s met" in (job / "capacity.html").read_text()


@pytest.mark.slow
def test_a_closed_search_that_meets_all_it_may_try_is_answered(program: Any, url: str) -> None:
    (program.folder / "same.toml").write_text(SAME)
    result = program(
        "capacity", "same.toml", "--engine", "openai", "--attach", url, "--slots", "1",
        "--slo", "ttft=60s", "--share", "0.5", "--closed", "--to", "2", "--out", "job", "--json",
    )  # fmt: skip
    data = json.loads(result.stdout)

    assert [probe["level"] for probe in data["probes"]][:1] == [1]
    assert data["bracket"]["not_met"] is None
    assert data["objectives"] == ["50 % of requests within ttft=60s"]
    assert result.returncode == (0 if data["bracket"]["met"] == 2 else 3), result.stderr


def test_a_search_on_an_engine_that_cannot_start_ends_at_once(program: Any) -> None:
    result = tiny(program, "capacity", "--slo", "ttft_p99=2s", "--kv-tokens", "8")

    assert result.returncode == 4
    assert "8 tokens" in result.stderr
    assert "Traceback" not in result.stderr
    data = read(program.folder / "job/capacity.json")
    assert data["probes"] == []


@pytest.mark.slow
def test_an_interrupted_search_keeps_its_probes_and_leaves_no_server(
    program: Any, processes_in: Callable[..., list[int]]
) -> None:
    process = program.start(
        "capacity", "long.toml", "--model", str(program.model), "--dtype", "float32", "--slots", "2",
        "--threads", "1", "--slo", "ttft_p50=1ms", "--closed", "--out", "job",
    )  # fmt: skip
    records = program.folder / "job/01-concurrency-1/requests.jsonl"
    while not (records.exists() and records.read_bytes()):
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)  # another process is waited for; nothing is measured

    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate()

    assert process.returncode == 130
    assert "interrupted; what was measured is in job" in stderr
    assert "Traceback" not in stderr
    assert read(program.folder / "job/capacity.json")["bracket"]["met"] is None
    assert processes_in(program.folder) == []


WRONG = [
    (("sweep",), "no points are given"),
    (("sweep", "--rates", "2,1"), "rising"),
    (("sweep", "--concurrencies", "1,2", "--arrivals", "constant"), "--arrivals"),
    (("sweep", "--rates", "1,2", "--out", "."), "exists already"),
    (("capacity",), "no --slo is given"),
    (("capacity", "--slo", "goodness=2s"), "'goodness=2s'"),
    (("capacity", "--slo", "ttft_p99=2s", "--precision", "0"), "--precision is 0"),
    (("capacity", "--slo", "ttft_p99=2s", "--from", "4", "--to", "2"), "--to is 2"),
    (("capacity", "--slo", "ttft_p99=2s", "--from", "1.5", "--closed"), "--from is 1.5"),
    (("capacity", "--slo", "ttft_p99=2s", "--policy", "static,continuous"), "one at a time"),
]


@pytest.mark.parametrize(("words", "part"), WRONG, ids=[" ".join(words) for words, _ in WRONG])
def test_a_wrong_word_is_one_line_with_its_value(program: Any, words: tuple[str, ...], part: str) -> None:  # fmt: skip
    command, *rest = words
    result = program(command, "tiny.toml", "--model", str(program.model), *rest)

    assert result.returncode == 2, result.stdout
    assert result.stderr.startswith("error: ")
    assert len(result.stderr.strip().splitlines()) == 1
    assert part in result.stderr
    assert not (program.folder / "runs").exists()
