"""From a specification to how its server is started: pure, no engine needed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from engines.adapter import Adapter, Place
from engines.kinds import KINDS
from engines.knobs import attached, tell
from engines.server_process import LOOPBACK
from engines.versions import image_of
from harness.core.engine import EngineSpec, LaunchPlan
from harness.core.errors import UsageError

ATTACH_TIMEOUT_S = 30.0
_MODELS, _FOLDER = PurePosixPath("/models"), PurePosixPath("/batchmark")
_ANY_HOST = "0.0.0.0"  # noqa: S104 - inside a container, of which docker publishes one port


def plan_launch(adapter: Adapter, spec: EngineSpec, port: int, folder: Path) -> LaunchPlan:
    """How the engine of `spec` is started on `port`, with its files in `folder`; or attached to.

    A model that lies on this machine is an absolute path in `spec`. Raises UsageError when the
    engine cannot be started in that way.
    """
    if spec.attach_url is not None:
        return _attached(spec.attach_url, spec)
    require_policy(spec)
    if adapter.program is None:
        msg = f"{adapter.kind} is not launched; name a running server with --attach URL"
        raise UsageError(msg)
    setting = tell(adapter.kind, adapter.knobs, spec)
    # What lies here is not to be looked for on a hub.
    offline = {"HF_HUB_OFFLINE": "1"} if is_local(spec) and adapter.reads == "folder" else {}
    env = {**offline, **adapter.env, **setting.told.env, **spec.env}
    applied, unsupported = dict(setting.applied), dict(setting.unsupported)
    files = {}
    if adapter.config_file is not None:
        files[adapter.config_file] = _config(adapter.config, setting.told.config)
    keys = _keys(adapter, spec)
    if spec.api_key_env is not None and not keys:
        unsupported["api_key_env"] = f"{adapter.kind} is launched without a key"
    if spec.image is not None:
        variables = (*(f"{name}={value}" for name, value in env.items()), *keys)
        argv = _in_container(adapter, spec, port, folder, variables)
        env = {}
    else:
        place = Place(LOOPBACK, port, spec.model, str(folder))
        argv = (spec.program or adapter.program, *adapter.command(place))
    return LaunchPlan(
        argv=(*argv, *setting.told.argv, *spec.args),
        env=env,
        base_url=f"http://{LOOPBACK}:{port}",
        ready_timeout_s=adapter.ready_timeout_s,
        files=files,
        applied=applied,
        unsupported=unsupported,
        keys=keys,
    )


def is_local(spec: EngineSpec) -> bool:
    """Whether the model of `spec`, a located one, lies on this machine."""
    return Path(spec.model).is_absolute()


def require_policy(spec: EngineSpec) -> None:
    """Raise UsageError unless the engine of `spec` has its policy; None is the engine's own."""
    policies = KINDS[spec.kind].policies
    if spec.policy is None or spec.policy in policies:
        return
    if not policies:
        msg = f"{spec.kind} has no batching policies; leave out --policy"
    else:
        msg = f"unknown policy {spec.policy!r} of {spec.kind}; choose from {', '.join(policies)}"
    raise UsageError(msg)


def container_name(plan: LaunchPlan) -> str | None:
    """The name of the container that `plan` runs; None when it runs none."""
    if "--name" not in plan.argv or "run" not in plan.argv[:2]:
        return None
    return plan.argv[plan.argv.index("--name") + 1]


def _attached(url: str, spec: EngineSpec) -> LaunchPlan:
    unsupported = attached()
    applied = {}
    if spec.served_name is not None:
        applied["served_name"] = spec.served_name
    why = "nothing is launched"
    unsupported |= {
        name: why for name in ("image", "program", "args", "env") if getattr(spec, name)
    }
    return LaunchPlan(
        argv=(),
        env={},
        base_url=url.rstrip("/"),
        ready_timeout_s=ATTACH_TIMEOUT_S,
        applied=applied,
        unsupported=unsupported,
    )


def _keys(adapter: Adapter, spec: EngineSpec) -> Mapping[str, str]:
    if spec.api_key_env is None or adapter.key_variable is None:
        return {}
    return {adapter.key_variable: spec.api_key_env}


def _config(base: Mapping[str, Any], told: Mapping[str, Any]) -> str:
    """JSON, which YAML is a superset of; keys with dots are keys of objects."""
    whole: dict[str, Any] = {}
    for key, value in {**base, **told}.items():
        *path, last = key.split(".")
        at = whole
        for name in path:
            at = at.setdefault(name, {})
        at[last] = value
    return json.dumps(whole, indent=2, sort_keys=True) + "\n"


def _in_container(
    adapter: Adapter, spec: EngineSpec, port: int, folder: Path, variables: Sequence[str]
) -> tuple[str, ...]:
    """The `docker run` line up to the words of the knobs.

    A variable with its value is passed on as it is; of one without, docker takes ours.
    """
    container = adapter.container
    if container is None:
        msg = f"{adapter.kind} has no container image; leave out --image"
        raise UsageError(msg)
    image = image_of(adapter.kind, spec.image or "default")
    model = spec.model
    if is_local(spec):
        model = str(_MODELS / Path(spec.model).name)
        mounts = ["-v", f"{spec.model}:{model}:ro"]
    else:
        mounts = ["-v", f"{Path.home() / '.cache/huggingface'}:{container.cache}", "-e", "HF_TOKEN"]
    if adapter.config_file is not None:
        file = adapter.config_file
        mounts += ["-v", f"{folder.resolve() / file}:{_FOLDER / file}:ro"]
    is_gpu = container.uses_gpu(image)
    flags = ("--gpus", "all") if is_gpu else container.cpu_flags
    place = Place(_ANY_HOST, container.port, model, str(_FOLDER))
    entrypoint = () if container.entrypoint is None else ("--entrypoint", container.entrypoint)
    return (
        *(spec.program or "docker", "run", "--rm", "--name", f"batchmark-{spec.kind}-{port}"),
        *("-p", f"{LOOPBACK}:{port}:{container.port}"),
        *(word for variable in variables for word in ("-e", variable)),
        *mounts,
        *flags,
        *container.flags,
        *entrypoint,
        image,
        *container.words,
        *adapter.command(place),
        *(() if is_gpu else container.cpu_words),
    )
