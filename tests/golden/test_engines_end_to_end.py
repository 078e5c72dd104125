"""`batchmark engines`, and `batchmark run` against servers that speak: what is printed and kept."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CANARY = "sk-canary-4711"
EVENTS = "".join(
    f"data: {json.dumps(event)}\n\n"
    for event in (
        {"choices": [{"text": "a", "token_ids": [1], "finish_reason": None}]},
        {"choices": [{"text": "b", "token_ids": [2, 3, 4], "finish_reason": "length"}]},
        {"choices": [], "usage": {"prompt_tokens": 20, "completion_tokens": 4}},
    )
)


class Server(http.server.BaseHTTPRequestHandler):
    """An OpenAI-compatible server that wants the key, when it has one, and repeats a wrong one."""

    protocol_version = "HTTP/1.1"
    key: str | None = None

    def do_GET(self) -> None:
        models = {"data": [{"id": "served", "max_model_len": 4096}]}
        self._say(200, "application/json", json.dumps(models))

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        given = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if self.key is not None and given != self.key:
            self._say(401, "application/json", json.dumps({"error": f"no key {given}"}))
        else:
            self._say(200, "text/event-stream", EVENTS + "data: [DONE]\n\n")

    def _say(self, status: int, kind: str, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    Server.key = None
    server.shutdown()
    server.server_close()


def test_the_engines_are_listed_with_those_of_the_file_beside_us(program: Any) -> None:
    (program.folder / "engines.toml").write_text('[engines.mine]\nkind = "vllm"\n')
    result = program("engines")

    assert result.returncode == 0, result.stderr
    listed = [line.split()[0] for line in result.stdout.strip().splitlines()[2:]]
    assert listed[:4] == ["inhouse", "huggingface-static", "openvino", "vllm"]
    assert listed[-1] == "mine"
    assert "vllm, as engines.toml sets it" in result.stdout


def test_a_plan_shows_command_lines_and_what_is_not_alike_and_launches_nothing(
    program: Any,
) -> None:
    result = program(
        "engines", "plan", "vllm,tensorrt-llm,transformers", "--model", "org/m", "--slots", "16",
        "--policy", "STATIC_BATCH", "--batched-tokens", "512", "--engine-arg", "--trust-remote-code",
    )  # fmt: skip

    assert result.returncode == 0, result.stderr
    assert "vllm serve org/m --host 127.0.0.1 --port " in result.stdout
    assert '"capacity_scheduler_policy": "STATIC_BATCH"' in result.stdout
    assert "--max-num-seqs 16 " in result.stdout
    assert "no effect: slots: its command line has no limit of sequences" in result.stdout
    assert "cannot be started here: vllm is not installed: there is no program" in result.stdout
    assert "caution KNOB_NOT_EQUAL: sequences at once is not alike: " in result.stdout
    assert result.stdout.count("--trust-remote-code") == 3
    assert not (program.folder / "runs").exists()


def test_two_servers_are_measured_in_one_run_and_no_key_is_left_anywhere(
    program: Any, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUR_KEY", CANARY)
    Server.key = CANARY
    (program.folder / "engines.toml").write_text(
        f'[engines.one]\nkind = "openai"\nattach_url = "{url}"\napi_key_env = "OUR_KEY"\n'
        f'[engines.two]\nkind = "vllm"\nattach_url = "{url}"\napi_key_env = "OUR_KEY"\n'
    )
    result = program(
        "run", "tiny.toml", "--engine", "one,two", "--baseline", "one", "--warmup", "0",
        "--repeat-mix", "2", "--out", "job",
    )  # fmt: skip

    assert "x output tok/s vs one (served of unknown dtype" in result.stdout, result.stderr
    assert "What each engine will do" in result.stdout
    assert "PREFIX_CACHE_NOT_KNOWN" in result.stdout
    kept = json.loads((program.folder / "job" / "preflight.json").read_text())
    assert [engine["name"] for engine in kept["engines"]] == ["one", "two"]
    assert len({engine["fingerprint"] for engine in kept["engines"]}) == 1  # of one address
    assert "PREFIX_CACHE_NOT_KNOWN" in (program.folder / "job" / "comparison.json").read_text()
    for file in (program.folder / "job").rglob("*"):
        assert file.is_dir() or CANARY not in file.read_text(), file
    assert CANARY not in result.stdout + result.stderr


def tell(program: Any, *words: str) -> Any:
    return program("run", "tiny.toml", "--warmup", "0", "--out", "job", *words)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--engine", "warp"), "unknown engine 'warp'; known are inhouse"),
        (("--engine", "vllm", "--model", "org/m"), "vllm is not installed"),
        (("--engine", "openai"), "openai is not launched; name a running server with --attach"),
        (("--engine", "inhouse", "--model", "no/such/model"), "no/such/model"),
        (("--engine", "openai", "--attach", "127.0.0.1:8000"), "no http or https URL"),
        (("--engine", "mine", "--engines", "none.toml"), "cannot read none.toml"),
        (("--engine", "sglang", "--model", "org/m", "--image", "x", "--policy", "static"), "leave out --policy"),
    ],
)  # fmt: skip
def test_what_cannot_be_run_is_told_in_one_line_before_anything_happens(
    program: Any, words: tuple[str, ...], message: str
) -> None:
    result = tell(program, *words)

    assert result.returncode == 2, result.stdout
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (program.folder / "job").exists()


def test_a_wrong_key_ends_the_run_with_its_variables_name(
    program: Any, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUR_KEY", CANARY)
    Server.key = "another"
    result = tell(program, "--engine", "openai", "--attach", url, "--api-key-env", "OUR_KEY")

    assert result.returncode == 2
    assert "refuses the key in OUR_KEY" in result.stderr
    assert CANARY not in result.stdout + result.stderr
    (manifest,) = (program.folder / "job").rglob("manifest.json")
    assert json.loads(manifest.read_text())["status"] == "failed"
    assert CANARY not in manifest.read_text()


def test_a_name_that_is_not_served_ends_the_run_with_those_that_are(program: Any, url: str) -> None:
    result = tell(program, "--engine", "openai", "--attach", url, "--served-name", "other")

    assert result.returncode == 2
    assert (
        "serves no model 'other'; it serves served: choose one with --served-name" in result.stderr
    )


def test_a_program_that_ends_while_it_loads_is_told_with_its_last_lines(
    program: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "broken"
    script.write_text("#!/bin/sh\necho no kernel for this card\nexit 7\n")
    script.chmod(0o755)
    monkeypatch.setenv("BATCHMARK_VLLM", str(script))
    result = tell(program, "--engine", "vllm", "--model", "org/m")

    assert result.returncode == 4
    assert "ended with exit code 7 before it was ready" in result.stderr
    assert "no kernel for this card" in result.stderr
