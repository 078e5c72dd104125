"""From the engine that the user names to its adapter, and what the adapter launches."""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path

import pytest

from engines.inhouse_server import InhouseServer, launch_plan
from engines.registry import ENGINE_KINDS, open_engine
from harness.core.clock import VirtualClock
from harness.core.engine import EngineSpec
from harness.core.errors import UsageError

SPEC = EngineSpec(kind="inhouse", name="inhouse-static", model="m", policy="static", slots=4)


def test_every_known_kind_opens(tmp_path: Path) -> None:
    for kind in ENGINE_KINDS:
        spec = EngineSpec(kind=kind, name="e", model="m")

        assert open_engine(spec, tmp_path, VirtualClock()).spec == spec


def test_an_unknown_kind_is_refused_with_those_known(tmp_path: Path) -> None:
    spec = EngineSpec(kind="warp", name="e", model="m")

    with pytest.raises(UsageError, match=r"unknown engine 'warp'; known are inhouse"):
        open_engine(spec, tmp_path, VirtualClock())


def test_an_unknown_policy_is_refused_with_those_known(tmp_path: Path) -> None:
    spec = EngineSpec(kind="inhouse", name="e", model="m", policy="psychic")

    with pytest.raises(UsageError, match=r"'psychic'; choose from static, dynamic, continuous"):
        open_engine(spec, tmp_path, VirtualClock())


def test_the_launch_plan_says_all_that_decides_the_engines_behaviour() -> None:
    plan = launch_plan(SPEC, 8123, Path("runs/x/steps.jsonl"))

    assert plan.argv == (
        *(sys.executable, "-m", "harness.cli", "serve", "--model", "m", "--policy", "static"),
        *("--slots", "4", "--dtype", "bfloat16", "--port", "8123", "--until-stdin-closes"),
        *("--step-log", "runs/x/steps.jsonl", "--pad-prompts"),
    )
    assert plan.base_url == "http://127.0.0.1:8123"


def test_options_that_are_not_given_are_not_passed_on() -> None:
    spec = EngineSpec(
        kind="inhouse", name="e", model="m", threads=2, batch_window_ms=2.5, pad_prompts=False
    )

    argv = launch_plan(spec, 1, Path("s")).argv

    assert argv[-5:] == ("--no-pad-prompts", "--threads", "2", "--batch-window-ms", "2.5")
    assert argv[argv.index("--policy") + 1] == "continuous"


def test_the_engine_asks_for_token_ids_which_our_server_knows(tmp_path: Path) -> None:
    assert InhouseServer(SPEC, tmp_path, VirtualClock()).dialect.asks_token_ids


def test_a_port_in_use_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        spec = EngineSpec(kind="inhouse", name="e", model="m", port=port)
        engine = InhouseServer(spec, tmp_path, VirtualClock())

        with pytest.raises(UsageError, match=rf"port {port} on 127\.0\.0\.1 is in use"):
            asyncio.run(engine.start())

    assert list(tmp_path.iterdir()) == []


def test_stopping_an_engine_that_never_started_is_fine(tmp_path: Path) -> None:
    engine = InhouseServer(SPEC, tmp_path, VirtualClock())

    engine.raise_if_dead()
    asyncio.run(engine.stop())
