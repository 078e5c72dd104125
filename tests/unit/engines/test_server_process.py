"""Servers as processes, with small real ones: they die, come late, never, and leave children."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from engines.server_process import ServerProcess, cannot_listen, free_port, require_free_port
from harness.core.clock import MonotonicClock, VirtualClock
from harness.core.errors import EngineFailed, UsageError

WAIT_S = 60.0
# Answers each GET with the next of the statuses given, from the moment it is up.
SERVER = """
import http.server, sys
port, *statuses = map(int, sys.argv[1:])
class Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(statuses.pop(0) if len(statuses) > 1 else statuses[0])
        self.send_header("Content-Length", "0")
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", port), Answers).serve_forever()
"""
# Leaves a child behind that ignores SIGTERM, says its id, and then waits or ends.
PARENT = """
import subprocess, sys, time
child = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True)"
child += "; time.sleep(600)"
process = subprocess.Popen([sys.executable, "-c", child], stdout=subprocess.PIPE)
process.stdout.readline()
print(process.pid, flush=True)
time.sleep(float(sys.argv[1]))
"""


def python(code: str, log: Path, *arguments: object, virtual: bool = False) -> ServerProcess:
    argv = (sys.executable, "-c", code, *(str(argument) for argument in arguments))
    return ServerProcess(argv, {"IN_TEST": "yes"}, log, VirtualClock() if virtual else CLOCK)


CLOCK = MonotonicClock()


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0.005)


def whole_lines(log: Path) -> list[str]:
    return log.read_text().split("\n")[:-1] if log.exists() else []


def is_dead(server: ServerProcess) -> bool:
    try:
        server.raise_if_dead()
    except EngineFailed:
        return True
    return False


def is_running(pid: int) -> bool:
    """Whether process `pid` runs; one that has ended and was not reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_server_that_dies_while_loading_is_told_with_its_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    code = "import sys; [print('line', i) for i in range(40)]; sys.exit('no such model')"

    async def run() -> None:
        server = python(code, log)
        server.start()
        try:
            await server.wait_until_healthy(f"http://127.0.0.1:{free_port()}/health", WAIT_S)
        finally:
            await server.stop()

    with pytest.raises(EngineFailed) as caught:
        asyncio.run(run())

    first, *lines = str(caught.value).splitlines()
    assert first == (f"the server ended with exit code 1 before it was ready; last lines of {log}:")
    assert lines == [*(f"line {i}" for i in range(26, 40)), "no such model"]


def test_a_server_that_is_killed_is_told_by_the_signal(tmp_path: Path) -> None:
    async def run() -> None:
        server = python("import os; os.kill(os.getpid(), 9)", tmp_path / "engine.log")
        server.start()
        try:
            await server.wait_until_healthy(f"http://127.0.0.1:{free_port()}/", WAIT_S)
        finally:
            await server.stop()

    with pytest.raises(EngineFailed, match="ended on SIGKILL before it was ready; .* is empty"):
        asyncio.run(run())


def test_a_server_that_is_never_ready_is_given_up_at_the_deadline(tmp_path: Path) -> None:
    port = free_port()

    async def run() -> None:
        server = python("input()", tmp_path / "engine.log", virtual=True)
        server.start()
        try:
            await server.wait_until_healthy(f"http://127.0.0.1:{port}/health", 2.0)
        finally:
            await server.stop()

    with pytest.raises(EngineFailed, match=rf"not ready after 2 s; http://127.0.0.1:{port}/health"):
        asyncio.run(run())


def test_a_server_that_answers_late_is_waited_for(tmp_path: Path) -> None:
    port = free_port()

    async def run() -> None:
        server = python(SERVER, tmp_path / "engine.log", port, 503, 404, 200)
        server.start()
        try:
            await server.wait_until_healthy(f"http://127.0.0.1:{port}/health", WAIT_S)
            server.raise_if_dead()
        finally:
            await server.stop()

    asyncio.run(run())

    log = (tmp_path / "engine.log").read_text()
    assert [s for s in ("503", "404", "200") if s in log] == ["503", "404", "200"]
    require_free_port(port)


def test_a_server_that_stays_unwell_is_told_with_its_last_status(tmp_path: Path) -> None:
    port = free_port()

    async def run() -> None:
        ready = python(SERVER, tmp_path / "engine.log", port, 200, 503)
        ready.start()
        try:
            await ready.wait_until_healthy(f"http://127.0.0.1:{port}/", WAIT_S)
            await ready.wait_until_healthy(f"http://127.0.0.1:{port}/", 0.0)
        finally:
            await ready.stop()

    with pytest.raises(EngineFailed, match="not ready after 0 s; .*: HTTP 503"):
        asyncio.run(run())


def test_a_death_after_it_was_ready_is_told_too(tmp_path: Path) -> None:
    async def run() -> None:
        server = python("print('bye'); raise SystemExit(3)", tmp_path / "engine.log")
        server.start()
        try:
            await until(lambda: is_dead(server))
            server.raise_if_dead()
        finally:
            await server.stop()

    with pytest.raises(EngineFailed, match=r"exit code 3 by itself; last lines of .*:\nbye"):
        asyncio.run(run())


def test_a_program_that_does_not_exist_is_told(tmp_path: Path) -> None:
    server = ServerProcess(("no-such-program",), {}, tmp_path / "engine.log", CLOCK)

    with pytest.raises(EngineFailed, match="cannot start no-such-program: No such file"):
        server.start()


def test_the_environment_is_laid_over_ours_and_the_log_is_appended_to(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text("before\n")
    code = "import os; print(os.environ['IN_TEST'], 'PATH' in os.environ, flush=True); input()"

    async def run() -> None:
        server = python(code, log)
        server.start()
        try:
            await until(lambda: len(whole_lines(log)) == 2)
        finally:
            await server.stop()

    asyncio.run(run())
    assert whole_lines(log)[:2] == ["before", "yes True"]


@pytest.mark.parametrize("is_leader_dead", [False, True])
def test_stop_ends_grandchildren_even_when_the_server_is_dead(
    tmp_path: Path, *, is_leader_dead: bool
) -> None:
    log = tmp_path / "engine.log"

    async def run() -> int:
        server = python(PARENT, log, 0 if is_leader_dead else 600)
        server.start()
        await until(lambda: bool(whole_lines(log)))
        if is_leader_dead:
            await until(lambda: is_dead(server))
        grandchild = int(whole_lines(log)[0])
        assert is_running(grandchild)
        await server.stop(grace_s=0.1)
        return grandchild

    assert not is_running(asyncio.run(run()))


def test_stop_may_be_called_twice_and_before_the_start(tmp_path: Path) -> None:
    async def run() -> None:
        server = python("input()", tmp_path / "engine.log")
        await server.stop()
        server.start()
        await server.stop()
        await server.stop()
        server.raise_if_dead()

    asyncio.run(run())


def test_a_server_learns_of_our_death_by_the_end_of_its_input(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    server = "import sys; print('reading', flush=True); sys.stdin.read(); print('eof', flush=True)"
    harness = f"""
import os, pathlib, sys
from engines.server_process import ServerProcess
from harness.core.clock import MonotonicClock
log = pathlib.Path({str(log)!r})
ServerProcess((sys.executable, "-c", {server!r}), {{}}, log, MonotonicClock()).start()
while "reading" not in log.read_text():
    pass
os.kill(os.getpid(), 9)
"""

    died = subprocess.run([sys.executable, "-c", harness], check=False, timeout=WAIT_S)

    assert died.returncode == -9
    asyncio.run(until(lambda: len(whole_lines(log)) == 2))
    assert whole_lines(log) == ["reading", "eof"]


def test_a_free_port_can_be_listened_on_and_one_in_use_cannot() -> None:
    port = free_port()
    require_free_port(port)

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        with pytest.raises(UsageError, match=rf"port {port} on 127\.0\.0\.1 is in use \(Address"):
            require_free_port(port)


def test_a_port_that_may_not_be_had_for_another_reason_is_not_called_in_use() -> None:
    error = cannot_listen("127.0.0.1", 80, PermissionError(13, "Permission denied"))

    assert str(error) == (
        "cannot listen on port 80 of 127.0.0.1 (Permission denied); choose another with --port, "
        "or another address with --host"
    )
