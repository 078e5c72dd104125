"""Asks a running server over HTTP: for its health, for what it is, and for a first answer."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from engines.api_key import ApiKey
from engines.prometheus import Sample, parse
from harness.core.clock import Clock
from harness.core.engine import Capture, Ending, EngineSpec, Read, WireRequest
from harness.core.errors import UsageError

_TIMEOUT_S = 10.0
_ANSWER_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class Reply:
    """What a GET came to: a status and a body, or a `fault` in words."""

    status: int | None
    body: str = ""
    fault: str = ""

    def __str__(self) -> str:
        """Such as `HTTP 503`, or what went wrong."""
        return f"HTTP {self.status}" if self.status is not None else self.fault


class Asker:
    """Asks the server of `spec` at `base_url`; `key` is shown to it, and to nobody else."""

    def __init__(
        self, base_url: str, spec: EngineSpec, key: ApiKey | None, log: Path | None
    ) -> None:
        self.base_url = base_url
        self.spec = spec
        self._key = key
        self._log = log

    async def get(self, path: str) -> Reply:
        """What GET `path` came to. Raises UsageError when the server's certificate is refused."""
        try:
            async with self._session(_TIMEOUT_S) as session, session.get(self._url(path)) as answer:
                return Reply(answer.status, await answer.text(errors="replace"))
        except TimeoutError:
            return Reply(None, fault=f"no answer in {_TIMEOUT_S:g} s")
        except aiohttp.ClientSSLError as error:
            raise self._no_tls(error) from error
        except (aiohttp.ClientError, ValueError) as error:
            return Reply(None, fault=self.hide(str(error) or type(error).__name__))

    async def json(self, path: str) -> Any:
        """The JSON that GET `path` answers with; an empty object when it gives none."""
        reply = await self.get(path)
        if reply.status != 200:
            return {}
        try:
            return json.loads(reply.body)
        except ValueError:
            return {}

    async def object(self, path: str) -> Mapping[str, Any]:
        """The JSON object that GET `path` answers with; an empty one when it gives none."""
        found = await self.json(path)
        return found if isinstance(found, dict) else {}

    async def metrics(self, path: str = "/metrics") -> tuple[Sample, ...]:
        """The Prometheus samples at `path`; none when it gives none."""
        reply = await self.get(path)
        try:
            return parse(reply.body) if reply.status == 200 else ()
        except ValueError:
            return ()

    async def models(self) -> tuple[Mapping[str, Any], ...]:
        """What /v1/models lists, an object each; none when it lists none."""
        listed = (await self.object("/v1/models")).get("data")
        rows = listed if isinstance(listed, list) else []
        return tuple(
            row for row in rows if isinstance(row, dict) and isinstance(row.get("id"), str)
        )

    def logged(self, pattern: str) -> str | None:
        """The first group of the last match of `pattern` in the server's log; None without one."""
        if self._log is None or not self._log.is_file():
            return None
        found = re.findall(pattern, self._log.read_text(encoding="utf-8", errors="replace"))
        return str(found[-1]) if found else None

    async def exchange(self, request: WireRequest, clock: Clock) -> Capture:
        """Send `request` as it is and read its answer to the end; whatever happens is captured."""
        sent_ns = clock.now_ns()
        reads: list[Read] = []
        status: int | None = None
        headers: tuple[tuple[str, str], ...] = ()
        ending, detail = Ending.COMPLETE, ""
        try:
            async with (
                aiohttp.ClientSession(timeout=_timeout(_ANSWER_TIMEOUT_S)) as session,
                session.request(
                    request.method,
                    self._url(request.path),
                    headers=request.headers,
                    data=request.body,
                ) as answer,
            ):
                status, headers = answer.status, tuple(answer.headers.items())
                async for piece in answer.content.iter_any():
                    reads += (Read(clock.now_ns(), piece),)
        except aiohttp.ClientSSLError as error:
            raise self._no_tls(error) from error
        except TimeoutError:
            ending, detail = Ending.CUT, f"the answer had not ended after {_ANSWER_TIMEOUT_S:g} s"
        except (aiohttp.ClientError, ValueError) as error:
            ending = Ending.CONNECT_FAILED if status is None else Ending.CUT
            detail = str(error) or type(error).__name__
        first_ns = reads[0].received_ns if reads else None
        return Capture(
            sent_ns, status, headers, first_ns, tuple(reads), clock.now_ns(), ending, detail
        )

    def hide(self, text: str) -> str:
        """`text` without the key."""
        return text if self._key is None else self._key.hide(text)

    def refused_key(self, status: int) -> UsageError:
        """The error to raise when the server answered `status`, 401 or 403."""
        name = self.spec.api_key_env
        if name is None:
            what, remedy = "asks for a key", "name the variable that holds one with --api-key-env"
        else:
            what, remedy = f"refuses the key in {name}", f"put the right key into {name}"
        return UsageError(f"the server at {self.base_url} {what} (HTTP {status}); {remedy}")

    def require_key(self, status: int | None) -> None:
        """Raise UsageError when `status` says that the server refuses our key, or asks for one."""
        if status in (401, 403):
            raise self.refused_key(status)

    def _url(self, path: str) -> str:
        return f"{self.base_url}{path}"

    def _session(self, timeout_s: float) -> aiohttp.ClientSession:
        headers = dict([self._key.header]) if self._key is not None else None
        return aiohttp.ClientSession(timeout=_timeout(timeout_s), headers=headers)

    def _no_tls(self, error: aiohttp.ClientSSLError) -> UsageError:
        said = getattr(error, "certificate_error", None) or error.os_error
        remedy = "trust its certificate with SSL_CERT_FILE, or give the URL it is made out to"
        return UsageError(f"no TLS connection to {self.base_url}: {said}; {remedy}")


def _timeout(total_s: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=total_s)
