"""Processes of ours: they are named when they end by themselves, and they end when they are left."""

from __future__ import annotations

import asyncio
import operator
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.loadgen.child import Child, start_child
from harness.loadgen.recorder import record
from harness.loadgen.worker import Start


def test_a_process_that_ends_by_itself_is_named_with_its_exit_code() -> None:
    assert _death_of(operator.eq) == "the helper ended by itself (exit code 0)"


def test_a_process_that_is_killed_is_named_with_the_signal() -> None:
    def kill(child: Child) -> None:
        os.kill(child.pid, signal.SIGKILL)

    assert _death_of(record, kill) == "the helper ended by itself (exit code -9)"


def test_one_that_has_ended_hears_nothing_and_is_closed_all_the_same() -> None:
    def kill(child: Child) -> None:
        os.kill(child.pid, signal.SIGKILL)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        child.say(Start(0))

    assert "-9" in _death_of(record, kill)


def test_ctrl_c_in_a_terminal_does_not_reach_it() -> None:
    """A terminal sends SIGINT to the whole group of processes that is in front."""
    groups: list[int] = []

    def note_group_and_kill(child: Child) -> None:
        groups.append(os.getpgid(child.pid))
        os.kill(child.pid, signal.SIGKILL)

    _death_of(record, note_group_and_kill)

    assert groups != [os.getpgrp()]


def test_a_folder_called_like_our_package_is_not_taken_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "harness").mkdir()
    (tmp_path / "harness" / "__init__.py").write_text("raise SystemExit(9)\n")
    monkeypatch.chdir(tmp_path)

    assert _death_of(operator.eq).endswith("(exit code 0)")


def test_a_plan_larger_than_a_pipe_arrives_whole() -> None:
    assert _death_of(operator.eq, plan=b"x" * (1 << 22)).endswith("(exit code 0)")


def test_a_process_has_ended_when_it_was_closed() -> None:
    async def closed() -> int:
        child = await start_child("the recorder", record, None)
        child.listen(lambda _: None, lambda _: None)
        child.close()
        return child.pid

    with pytest.raises(ProcessLookupError):
        os.kill(asyncio.run(closed()), 0)


def _death_of(
    target: Callable[..., Any],
    then: Callable[[Child], None] = lambda _: None,
    plan: object = None,
) -> str:
    async def watched() -> str:
        child = await start_child("the helper", target, plan)
        died: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        child.listen(lambda _: None, died.set_result)
        then(child)
        try:
            return await died
        finally:
            child.close()

    return asyncio.run(watched())
