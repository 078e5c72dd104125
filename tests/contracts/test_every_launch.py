"""One suite for every adapter that launches: how it starts, waits for, and ends its server.

The server is a stand-in that notes how it was started (stand_in.py).
"""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
from typing import Any

import pytest

from engines import http_server
from harness.core.errors import EngineFailed, ExitCode, UsageError

JSON = "application/json"
CANARY = "sk-canary-4711"


def test_a_server_gets_the_words_of_its_plan_and_its_files(
    launched: Any, bench: Any, talk: Any
) -> None:
    engine = bench.engine(launched)
    facts = asyncio.run(talk.start_and_stop(engine))

    started = bench.started()
    assert started["argv"] == list(engine.plan.argv)
    assert {name: started["env"].get(name) for name in engine.plan.env} == dict(engine.plan.env)
    for name, text in engine.plan.files.items():
        assert (bench.run / name).read_text() == text
    assert "loading" in (bench.run / "engine.log").read_text()
    assert facts.settings["probe"]
    assert facts.version is not None


def test_a_server_is_stopped_and_its_port_is_free_again(
    launched: Any, bench: Any, talk: Any
) -> None:
    engine = bench.engine(launched)

    async def main() -> None:
        await talk.start_and_stop(engine)
        reply = await engine._asker.get(launched.is_ready)
        assert reply.status is None
        await engine.stop()

    asyncio.run(main())


def test_a_server_that_starts_slowly_is_waited_for(launched: Any, bench: Any, talk: Any) -> None:
    """First nobody listens, then it says 503, then it is ready."""
    busy = [[503, JSON, "{}"], [503, JSON, "{}"], [200, JSON, "{}"]]
    engine = bench.engine(launched, launched.answers() | {f"GET {launched.is_ready}": busy})
    (bench.folder / "wait").touch()

    async def main() -> None:
        task = asyncio.create_task(talk.start_and_stop(engine))
        while not (bench.folder / "started.json").exists():
            await asyncio.sleep(0.01)
        (bench.folder / "wait").unlink()
        await task

    asyncio.run(main())


def test_a_server_that_dies_while_loading_is_told_with_its_last_lines(
    launched: Any, bench: Any, talk: Any
) -> None:
    engine = bench.engine(launched, {"dies": "ValueError: no kernel for this model"})

    with pytest.raises(EngineFailed) as caught:
        asyncio.run(talk.start_and_stop(engine))

    assert "ended with exit code 1 before it was ready" in str(caught.value)
    assert str(caught.value).endswith("ValueError: no kernel for this model")
    assert caught.value.exit_code is ExitCode.INVALID


def test_a_server_that_dies_of_its_first_prompt_is_told_as_dead(
    launched: Any, bench: Any, talk: Any
) -> None:
    engine = bench.engine(launched, launched.answers() | {launched.post: [None]})

    with pytest.raises(EngineFailed, match=r"ended with exit code 9 by itself; last lines of"):
        asyncio.run(talk.start_and_stop(engine))


def test_a_port_that_is_taken_is_told_before_anything_is_started(
    launched: Any, bench: Any, talk: Any
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = talk.refusal(UsageError, bench.engine(launched, port=port))

    assert f"port {port} on 127.0.0.1 is in use" in said
    assert not (bench.folder / "started.json").exists()


def test_an_engine_that_is_not_installed_is_told_with_how_to_get_it(
    launched: Any, bench: Any, talk: Any
) -> None:
    said = talk.refusal(UsageError, bench.engine(launched, program="/nowhere/program"))

    assert "there is no program '/nowhere/program'" in said
    assert "BATCHMARK_" in said


def test_a_model_that_does_not_exist_is_told(launched: Any, bench: Any, talk: Any) -> None:
    said = talk.refusal(UsageError, bench.engine(launched, model="no/such/model"))

    assert "'no/such/model'" in said


def test_a_model_may_be_named_by_a_path_from_where_we_are(
    launched: Any, bench: Any, talk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(bench.model.parent)
    name = "model.gguf" if launched.kind == "llama-cpp" else "model"
    asyncio.run(talk.start_and_stop(bench.engine(launched, model=name)))

    named = [word for word in bench.started()["argv"] if word.rpartition("/")[2] == name]
    assert len(named) == 1


def test_a_missing_gpu_is_told_before_anything_is_started(
    for_gpus: Any, bench: Any, talk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "has_gpu", lambda: False)
    said = talk.refusal(UsageError, bench.engine(for_gpus))

    assert f"{for_gpus.kind} needs an NVIDIA GPU, and this machine shows none" in said
    assert not (bench.folder / "started.json").exists()


def test_the_key_reaches_the_server_by_its_own_variable_and_nothing_else(
    keyed: Any, bench: Any, talk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUR_KEY", CANARY)
    engine = bench.engine(keyed, api_key_env="OUR_KEY")
    asyncio.run(talk.start_and_stop(engine))

    env = bench.started()["env"]
    assert [name for name, value in env.items() if CANARY in value] == list(engine.plan.keys)
    assert list(engine.plan.keys.values()) == ["OUR_KEY"]
    assert CANARY not in repr(engine.plan)


def test_a_key_is_kept_from_a_server_that_has_no_use_for_it(
    keyless: Any, bench: Any, talk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUR_KEY", CANARY)
    engine = bench.engine(keyless, api_key_env="OUR_KEY")
    asyncio.run(talk.start_and_stop(engine))

    for file in bench.folder.glob("*.json"):
        assert CANARY not in file.read_text(), file
    assert "api_key_env" in engine.plan.unsupported


def test_a_key_that_a_server_prints_is_gone_from_its_log_and_from_what_is_told(
    keyed: Any, bench: Any, talk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUR_KEY", CANARY)
    engine = bench.engine(keyed, {"dies": f"bad key {CANARY}"}, api_key_env="OUR_KEY")

    with pytest.raises(EngineFailed, match="bad key <hidden>") as caught:
        asyncio.run(talk.start_and_stop(engine))

    assert CANARY not in str(caught.value)
    assert (bench.run / "engine.log").read_text().endswith("bad key <hidden>\n")


def test_a_container_is_published_on_loopback_alone_and_removed(
    contained: Any, bench: Any, talk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUR_KEY", CANARY)
    docker = shutil.copy(bench.folder / "program", bench.folder / "docker")
    engine = bench.engine(contained, image="default", program=str(docker), api_key_env="OUR_KEY")
    asyncio.run(talk.start_and_stop(engine))

    argv = list(engine.plan.argv)
    assert argv[:3] == [str(docker), "run", "--rm"]
    assert argv[argv.index("-p") + 1].startswith("127.0.0.1:")
    assert any(word.endswith(":ro") for word in argv)
    assert CANARY not in " ".join(argv)
    removed = json.loads((bench.folder / "removed.json").read_text())
    assert removed == ["rm", "--force", argv[argv.index("--name") + 1]]


def test_a_container_without_docker_is_told(contained: Any, bench: Any, talk: Any) -> None:
    engine = bench.engine(contained, image="default", program="/nowhere/docker")
    said = talk.refusal(UsageError, engine)

    assert "there is no program '/nowhere/docker' to run the image with" in said
