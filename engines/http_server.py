"""An engine that is an HTTP server: started or attached to, waited for, asked, stopped.

What differs between engines is in their `Adapter`. Healthy is not ready: a server counts as ready
when it has made real tokens, for one that answers its health check may still generate nothing.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from urllib.parse import urlsplit

from engines.adapter import Adapter, Sampler, Speech
from engines.api_key import ApiKey, api_key_of
from engines.asking import Asker
from engines.gpu import open_gpus, with_gpus
from engines.launch import container_name, plan_launch
from engines.local_model import located, require_readable
from engines.prompt_text import prompt_text_of
from engines.readiness import health, require_first_tokens, served_name
from engines.resolved import resolved_facts, settings_by_nature
from engines.samples import scrape_sample
from engines.server_process import (
    LOOPBACK,
    ServerProcess,
    free_port,
    laid_over,
    require_free_port,
)
from engines.versions import versions
from harness.core.clock import Clock
from harness.core.engine import Dialect, EngineFacts, EngineSample, EngineSpec
from harness.core.errors import EngineFailed, UsageError
from harness.core.rundir import ENGINE_LOG
from harness.core.units import NS_PER_MS

DOCKER_VARIABLE = "BATCHMARK_DOCKER"
DEATH_SHOWS_AFTER_NS = 200 * NS_PER_MS
_COMMAND_TIMEOUT_S = 60.0
_HERE = (LOOPBACK, "localhost", "::1")


class HttpServer:
    """The engine of `spec`, as `adapter` says; its files and its log go into `folder`."""

    def __init__(self, adapter: Adapter, spec: EngineSpec, folder: Path, clock: Clock) -> None:
        self.spec = _with_program(adapter, spec)
        self.capabilities = adapter.capabilities
        self._adapter = adapter
        self._folder = folder
        self._clock = clock
        is_ours = spec.attach_url is None or not adapter.capabilities.takes_token_ids
        model = located(spec.model) if is_ours and adapter.reads != "any" else spec.model
        self._located = replace(self.spec, model=model)
        self._port = free_port() if spec.port is None else spec.port
        self.plan = plan_launch(adapter, self._located, self._port, folder)
        self._container = container_name(self.plan)
        self._log = folder / ENGINE_LOG
        argv = (_found(self.plan.argv[0]), *self.plan.argv[1:]) if self.plan.argv else ()
        self._process = ServerProcess(argv, self._environment(), self._log, clock, self._hide)
        self._served = ""

    @cached_property
    def dialect(self) -> Dialect:
        """How the engine speaks. Raises UsageError when our key, or the tokenizer, is missing."""
        text = None
        if not self.capabilities.takes_token_ids:
            text = prompt_text_of(self.spec.kind, self._located.model)
        return self._adapter.dialect(Speech(self._located, self._key, text))

    def check(self) -> None:
        """Raise UsageError when it is known without a start that the engine cannot run here."""
        _ = self.dialect
        if not self.plan.argv:
            return
        if shutil.which(_found(self.plan.argv[0])) is None:
            raise self._not_installed()
        if self.spec.port is not None:
            require_free_port(self.spec.port)
        require_readable(self.spec.kind, self._adapter.reads, located(self.spec.model))
        self._require_gpu()

    async def start(self) -> None:
        """Start the server process. Raises UsageError when it is known that it cannot run."""
        self.check()
        if not self.plan.argv:
            return
        require_free_port(self._port)
        for name, text in self.plan.files.items():
            (self._folder / name).write_text(text, encoding="utf-8")
        self._process.start()

    async def wait_until_ready(self) -> None:
        """Return once the server is healthy, serves the model, and has answered with tokens.

        Raises EngineFailed when it ends first, or gives no tokens, and UsageError when the model or
        the key is not the right one.
        """
        look = partial(health, self._asker, self._adapter.health)
        await self._process.wait_until(look, self.plan.ready_timeout_s)
        self._served = await served_name(self._asker)
        is_batch = self.spec.policy in self._adapter.waits_for_batches
        at_once = self.spec.slots if is_batch else 1
        try:
            await require_first_tokens(
                self._asker, self.dialect, self._served, self._clock, at_once
            )
        except EngineFailed:
            # One that died of the prompt closed its connection a moment before that can be seen.
            await self._clock.sleep_until_ns(self._clock.now_ns() + DEATH_SHOWS_AFTER_NS)
            self._process.raise_if_dead()
            raise

    async def facts(self) -> EngineFacts:
        """What the ready server says about itself, and what it was told where it says nothing."""
        said = await self._adapter.facts(self._asker)
        said = replace(
            said,
            served_name=self._served or said.served_name,
            version=said.version or await asyncio.to_thread(self._printed_version),
        )
        said = replace(said, settings={**said.settings, **settings_by_nature(self.capabilities)})
        return await asyncio.to_thread(resolved_facts, said, self._located, self.plan)

    async def sample(self) -> EngineSample | None:
        """The engine's own counters now, with those of the GPUs where the server runs here."""
        sample = None
        if self.capabilities.has_metrics or self.spec.metrics_url is not None:
            headers = dict([self._key.header]) if self._key is not None else None
            sample = await self._sampler(self.plan.base_url, self._clock, headers)
        if urlsplit(self.plan.base_url).hostname not in _HERE:
            return sample
        group = None if self._container else self._process.group
        return await with_gpus(sample, open_gpus(), group, self._clock)

    def raise_if_dead(self) -> None:
        """Raise EngineFailed, with the log's last lines, when the server has ended by itself."""
        self._process.raise_if_dead()

    async def stop(self) -> None:
        """End the server's whole process group, or container. A server attached to is left alone.

        Safe to call twice, and before `start`.
        """
        was_running = self._process.group is not None
        await self._process.stop()
        if self._container is not None and was_running:
            await asyncio.to_thread(self._said, "rm", "--force", self._container)

    @cached_property
    def _key(self) -> ApiKey | None:
        return api_key_of(self.spec)

    @cached_property
    def _asker(self) -> Asker:
        log = self._log if self.plan.argv else None
        return Asker(self.plan.base_url, self._located, self._key, log)

    @cached_property
    def _sampler(self) -> Sampler:
        url = self.spec.metrics_url
        if url is None and self._adapter.sampler is not None:
            return self._adapter.sampler()
        return lambda base_url, clock, headers: scrape_sample(
            self.spec.kind, url or f"{base_url}/metrics", clock, headers
        )

    def _hide(self, text: str) -> str:
        return text if self.spec.api_key_env is None else self._asker.hide(text)

    def _environment(self) -> Mapping[str, str | None]:
        """What is laid over our environment: the key is only where the server looks for it."""
        stripped = {} if self.spec.api_key_env is None else {self.spec.api_key_env: None}
        keys = {theirs: os.environ.get(ours) for theirs, ours in self.plan.keys.items()}
        return {**stripped, **self.plan.env, **keys}

    def _printed_version(self) -> str | None:
        """The version that the program of a launched server prints; None when it cannot."""
        words = self._adapter.version_words
        if not words or not self.plan.argv or self._container is not None:
            return None
        printed = self._said(*words)
        found = re.search(r"\d+\.\d+[\w.+]*", printed)
        return found[0] if found else None

    def _said(self, *words: str) -> str:
        """What the program prints when it is run with `words`; nothing when that fails."""
        try:
            done = subprocess.run(
                (_found(self.plan.argv[0]), *words),
                env=laid_over(self._environment()),
                capture_output=True,
                text=True,
                timeout=_COMMAND_TIMEOUT_S,
                check=True,
            )
        except (OSError, ValueError, subprocess.SubprocessError):
            return ""
        return done.stdout

    def _not_installed(self) -> UsageError:
        program, variable = self.plan.argv[0], self._adapter.variable
        if self._container is not None:
            msg = f"there is no program {program!r} to run the image with; install docker"
            return UsageError(f"{msg}, or name another in {DOCKER_VARIABLE}")
        version = versions().get(self.spec.kind)
        remedy = f"get it with {version.install}" if version else "install it"
        msg = f"{self.spec.kind} is not installed: there is no program {program!r}; {remedy}"
        return UsageError(f"{msg}, or name its program in {variable}")

    def _require_gpu(self) -> None:
        container, image = self._adapter.container, self.spec.image
        needs_gpu = self._adapter.needs_gpu and "cpu" not in self.spec.args
        if container is not None and image is not None:
            needs_gpu = "--gpus" in self.plan.argv
        if needs_gpu and not has_gpu():
            msg = f"{self.spec.kind} needs an NVIDIA GPU, and this machine shows none"
            raise UsageError(f"{msg} (no /dev/nvidiactl, no nvidia-smi); run it where there is one")


def has_gpu() -> bool:
    """Whether this machine shows an NVIDIA GPU."""
    return Path("/dev/nvidiactl").exists() or shutil.which("nvidia-smi") is not None


def _with_program(adapter: Adapter, spec: EngineSpec) -> EngineSpec:
    """`spec` with the program that the environment names, where it names none itself."""
    variable = adapter.variable if spec.image is None else DOCKER_VARIABLE
    named = os.environ.get(variable)
    return replace(spec, program=named) if named and spec.program is None else spec


def _found(program: str) -> str:
    """Where `program` is: on the PATH, or beside the Python that runs us; else as it was named."""
    here = str(Path(sys.executable).parent)
    return shutil.which(program) or shutil.which(program, path=here) or program
