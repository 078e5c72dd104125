"""A server as an operating-system process: start it, wait until it answers, stop all of it.

The server gets a session of its own, so that one signal reaches everything it has started, and a
standard input that closes when this process ends, however it ends.
"""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import aiohttp

from harness.core.clock import Clock
from harness.core.errors import EngineFailed, UsageError
from harness.core.units import NS_PER_MS, s_to_ns

LOOPBACK = "127.0.0.1"
LOG_LINES = 15
_POLL_NS = 50 * NS_PER_MS
_PROBE_TIMEOUT_S = 5.0
_KILL_WAIT_S = 5.0


def free_port() -> int:
    """A port of the loopback address that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def require_free_port(port: int, host: str = LOOPBACK) -> None:
    """Raise UsageError when `port` of `host` cannot be listened on."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise cannot_listen(host, port, error) from error


def cannot_listen(host: str, port: int, error: OSError) -> UsageError:
    """The error to raise when binding to `port` of `host` failed with `error`."""
    number = error.errno or 0
    why = os.strerror(number) if number > 0 else str(error.strerror)
    if error.errno == errno.EADDRINUSE:
        what, remedy = f"port {port} on {host} is in use", "or stop what uses it"
    else:
        what, remedy = f"cannot listen on port {port} of {host}", "or another address with --host"
    return UsageError(f"{what} ({why}); choose another with --port, {remedy}")


def laid_over(env: Mapping[str, str | None]) -> dict[str, str]:
    """Our environment with `env` laid over it; a variable that is None there is taken out."""
    return {name: v for name, v in {**os.environ, **env}.items() if v is not None}


class ServerProcess:
    """One server and its process group. Output of both kinds is appended to `log`.

    `env` is laid over our own environment; a variable that is None there is taken out of it. `hide`
    takes secrets out of a text: nothing of the log is shown, or left behind, without it.
    """

    def __init__(
        self,
        argv: tuple[str, ...],
        env: Mapping[str, str | None],
        log: Path,
        clock: Clock,
        hide: Callable[[str], str] = str,
    ) -> None:
        self._argv = argv
        self._hide = hide
        self._env = env
        self._log = log
        self._clock = clock
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def group(self) -> int | None:
        """The process group of the server; None while it does not run."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the process. Raises EngineFailed when there is no such program."""
        with self._log.open("ab") as log:
            try:
                self._process = subprocess.Popen(
                    self._argv,
                    env=laid_over(self._env),
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                msg = f"cannot start {self._argv[0]}: {error.strerror}; is it installed?"
                raise EngineFailed(msg) from error

    async def wait_until_healthy(self, url: str, timeout_s: float) -> None:
        """Return once GET `url` is answered with 200; no connection and 503 mean not yet.

        Raises EngineFailed when the process ends first, or after `timeout_s`.
        """
        timeout = aiohttp.ClientTimeout(total=_PROBE_TIMEOUT_S)
        async with aiohttp.ClientSession(timeout=timeout) as session:

            async def look() -> str | None:
                said = await _probe(session, url)
                return None if said == "HTTP 200" else f"{url}: {said}"

            await self.wait_until(look, timeout_s)

    async def wait_until(self, look: Callable[[], Awaitable[str | None]], timeout_s: float) -> None:
        """Return once `look` finds nothing wanting; until then it says in words what is.

        Raises EngineFailed when the process ends first, or after `timeout_s`.
        """
        deadline_ns = self._clock.now_ns() + s_to_ns(timeout_s)
        while True:
            self._raise_if_dead("before it was ready")
            said = await look()
            if said is None:
                return
            if self._clock.now_ns() >= deadline_ns:
                msg = f"the server was not ready after {timeout_s:g} s; {said}"
                raise EngineFailed(f"{msg}; {self._last_lines()}")
            await self._clock.sleep_until_ns(self._clock.now_ns() + _POLL_NS)

    def raise_if_dead(self) -> None:
        """Raise EngineFailed, with the log's last lines, when the server has ended by itself."""
        self._raise_if_dead("by itself")

    async def stop(self, grace_s: float = 10.0) -> None:
        """End the process group: SIGTERM, then after `grace_s` SIGKILL. Safe to call twice.

        Also ends what the server has left behind when it is already dead itself.
        """
        process = self._process
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        for number, wait_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, _KILL_WAIT_S)):
            if not _signal_group(process.pid, number):
                break
            if await self._wait_until_gone(process, wait_s):
                break
        process.poll()
        self._process = None
        self._clean_log()

    async def _wait_until_gone(self, process: subprocess.Popen[bytes], wait_s: float) -> bool:
        deadline_ns = self._clock.now_ns() + s_to_ns(wait_s)
        while process.poll() is None or _lives(process.pid):
            if self._clock.now_ns() >= deadline_ns:
                return False
            await self._clock.sleep_until_ns(self._clock.now_ns() + _POLL_NS // 5)
        return True

    def _raise_if_dead(self, when: str) -> None:
        if self._process is None or (code := self._process.poll()) is None:
            return
        how = f"with exit code {code}" if code >= 0 else f"on {signal.Signals(-code).name}"
        msg = f"the server ended {how} {when}; {self._last_lines()}"
        raise EngineFailed(msg)

    def _last_lines(self) -> str:
        if not self._log.exists():
            return "it was started by somebody else, so its log is not here"
        with self._log.open(encoding="utf-8", errors="replace") as file:
            lines = [line.rstrip() for line in deque(file, maxlen=LOG_LINES)]
        if not lines:
            return f"{self._log} is empty"
        return self._hide(f"last lines of {self._log}:\n" + "\n".join(lines))

    def _clean_log(self) -> None:
        text = self._log.read_bytes().decode(errors="surrogateescape")
        if (clean := self._hide(text)) != text:
            self._log.write_bytes(clean.encode(errors="surrogateescape"))


async def _probe(session: aiohttp.ClientSession, url: str) -> str:
    """What GET `url` came to, in words."""
    try:
        async with session.get(url) as response:
            return f"HTTP {response.status}"
    except TimeoutError:
        return f"no answer in {_PROBE_TIMEOUT_S:g} s"
    except aiohttp.ClientError as error:
        return str(error)


def _signal_group(group: int, number: int) -> bool:
    """Send signal `number` to process group `group`; False when nothing is left of it."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):  # macOS says EPERM of a group of zombies
        return False
    return True


def _lives(group: int) -> bool:
    """Whether a process of `group` still runs.

    Orphans that nobody reaps, as in a container without an init, stay as zombies: they are dead.
    """
    if not _signal_group(group, 0):
        return False
    proc = Path("/proc")
    if not proc.is_dir():
        return True
    return any(_is_running_member(entry, group) for entry in proc.glob("[0-9]*"))


def _is_running_member(entry: Path, group: int) -> bool:
    """Read /proc/PID/stat (proc_pid_stat(5)): after the name come state, parent and group."""
    try:
        state, _parent, its_group, *_ = (entry / "stat").read_text().rpartition(")")[2].split()
    except OSError:  # it ended while we looked
        return False
    return int(its_group) == group and state not in ("Z", "X")
