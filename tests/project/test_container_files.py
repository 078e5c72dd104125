"""Dockerfile.gpu and compose.gpu.yaml, which no machine of ours can build or run.

They are held to versions.toml, to the adapters and to each other.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from engines.adapter import Adapter
from engines.kinds import KINDS
from engines.registry import open_engine
from engines.sglang_server import SGLANG
from engines.tensorrt_llm_server import TENSORRT_LLM
from engines.tgi_server import TGI
from engines.versions import versions
from engines.vllm_server import VLLM
from harness.core.clock import VirtualClock
from harness.core.engine import EngineSpec, LaunchPlan

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile.gpu").read_text(encoding="utf-8")
COMPOSE = yaml.safe_load((ROOT / "compose.gpu.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = ("client", "fetch")
ENGINES = tuple(name for name in SERVICES if name not in OURS)
ADAPTERS: dict[str, Adapter] = {a.kind: a for a in (VLLM, TGI, TENSORRT_LLM, SGLANG)}
SECRET = re.compile(r"token$|key$|secret|password", re.IGNORECASE)
TOKENIZER = (
    '{"version": "1.0", "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}}'
)


def filled(text: str, **values: str) -> str:
    """`text` with its variables filled in as compose does, by their defaults unless in `values`."""
    return re.sub(
        r"\$\{(\w+)(?::-((?:[^{}]|\{[^{}]*\})*))?\}",
        lambda found: values.get(found[1], found[2] or ""),
        text,
    )


def variable_of(text: str) -> str:
    """The variable that `text` begins with."""
    found = re.match(r"\$\{(\w+):-", text)
    assert found, f"{text} takes no variable"
    return found[1]


def image_variable(kind: str) -> str:
    return f"BATCHMARK_{kind.upper().replace('-', '_')}_IMAGE"


def is_pinned(image: str) -> bool:
    """Whether `image` names a version: a tag, and not a moving one."""
    _, colon, tag = image.rpartition(":")
    return bool(colon) and "/" not in tag and not re.match(r"latest|nightly|main", tag)


def exposed(ports: list[Any]) -> list[Any]:
    """Those of `ports` that others than this machine reach."""
    hosts = ((p, p.get("host_ip") if isinstance(p, dict) else str(p)) for p in ports)
    return [
        port for port, host in hosts if not re.match(r"127\.0\.0\.1(:\d*:\d+)?(/|$)", host or "")
    ]


def given_secrets(environment: Any) -> list[str]:
    """Variables that are named like secrets and have a value here, not just a name."""
    if isinstance(environment, list):
        environment = dict([*word.split("=", 1), None][:2] for word in environment)
    return [n for n, value in environment.items() if SECRET.search(n) and value is not None]


def pinned(kind: str) -> str:
    image = versions()[kind].image
    assert image
    return image


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that looks like a model; it is called `model`, as compose.gpu.yaml has it."""
    folder = tmp_path_factory.mktemp("models") / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "tokenizer.json").write_text(TOKENIZER)
    return folder


@pytest.fixture(scope="module")
def plan_of(model: Path) -> Callable[[str], LaunchPlan]:
    """How batchmark itself would launch a kind in its image, with the knobs of compose.gpu.yaml."""

    def plan(kind: str) -> LaunchPlan:
        spec = EngineSpec(
            kind=kind,
            name=kind,
            model=str(model),
            policy=next(iter(KINDS[kind].policies), None),
            slots=8,
            context_tokens=4096,
            batched_tokens=8192,
            image="default",
            program="docker",
        )
        return open_engine(spec, Path("runs/x"), VirtualClock()).plan

    return plan


# Versions, in one place.


def test_the_checks_of_this_file_tell_good_from_bad() -> None:
    assert is_pinned("ghcr.io/a/b:1.2")
    assert not any(is_pinned(i) for i in ("a", "a:latest", "host:5000/a", "a:latest-x86_64"))
    assert exposed(["127.0.0.1:8000:8000", "127.0.0.1::80/tcp", {"host_ip": "127.0.0.1"}]) == []
    bad = ["8000:8000", "0.0.0.0:1:1", "127.0.0.10:1:1", 8000, {"target": 80, "published": "80"}]
    assert exposed(bad) == bad
    assert given_secrets(["HF_TOKEN", "A_KEY=x", "PLAIN=y"]) == ["A_KEY"]
    assert given_secrets({"HF_TOKEN": None, "API_KEY": "x", "PLAIN": "y"}) == ["API_KEY"]
    assert filled("${A:-b:${C}/d}${E:-e}", E="f") == "b:${C}/df"


@pytest.mark.parametrize("kind", versions())
def test_every_image_of_the_table_is_pinned(kind: str) -> None:
    row = versions()[kind]
    for image in (row.image, row.image_cpu):
        assert image is None or (is_pinned(image) and row.written_for in image), image


@pytest.mark.parametrize("kind", ENGINES)
def test_a_service_runs_the_image_of_the_table_unless_it_is_told_another(kind: str) -> None:
    image = SERVICES[kind]["image"]

    assert filled(image) == pinned(kind)
    assert variable_of(image) == image_variable(kind)


def test_our_own_image_is_built_from_the_table_and_pulled_from_nowhere() -> None:
    for name in OURS:
        service = SERVICES[name]
        assert is_pinned(service["image"])
        assert service["pull_policy"] == "never"
        arguments = {key: filled(value) for key, value in service["build"]["args"].items()}
        assert arguments == {
            "VLLM_IMAGE": pinned("vllm"),
            "VLLM_VERSION": versions()["vllm"].written_for,
        }
        assert (ROOT / service["build"]["dockerfile"]).is_file()


def test_the_dockerfile_has_the_versions_of_the_table_as_defaults() -> None:
    arguments = dict(re.findall(r"^ARG (\w+)=(\S+)$", DOCKERFILE, re.MULTILINE))

    assert arguments == {
        "VLLM_IMAGE": pinned("vllm"),
        "VLLM_VERSION": versions()["vllm"].written_for,
    }
    assert re.findall(r"^FROM (.+)$", DOCKERFILE, re.MULTILINE) == ["${VLLM_IMAGE}"]
    assert "version('vllm')" in DOCKERFILE


# The services.


def test_every_service_but_our_own_is_an_engine_that_batchmark_has_an_adapter_for() -> None:
    assert set(ENGINES) == set(ADAPTERS)
    assert set(ENGINES) <= set(KINDS)


@pytest.mark.parametrize("kind", ENGINES)
def test_an_engine_is_told_what_its_adapter_would_tell_it(
    kind: str, plan_of: Callable[[str], LaunchPlan], model: Path
) -> None:
    plan, service = plan_of(kind), SERVICES[kind]
    before, image, words = split(plan.argv, pinned(kind))
    told = [word.replace("/models/model", "model") for word in words]
    given = dict(
        word.split("=", 1) for flag, word in pairwise(before) if flag == "-e" and "=" in word
    )
    entrypoint = [after for b, after in pairwise(before) if b == "--entrypoint"]

    assert image == pinned(kind)
    assert [filled(word) for word in service["command"]] == told
    assert service["environment"] == given
    assert service.get("entrypoint", []) == entrypoint
    # The engines are to call the model by one name, which is its folder's as they see it.
    assert service["working_dir"] == "/models"
    assert filled("${BATCHMARK_MODEL:-model}") in told


def split(argv: tuple[str, ...], image: str) -> tuple[list[str], str, list[str]]:
    at = argv.index(image)
    return list(argv[:at]), argv[at], list(argv[at + 1 :])


@pytest.mark.parametrize("kind", ENGINES)
def test_a_configuration_file_says_what_the_adapters_would(
    kind: str, plan_of: Callable[[str], LaunchPlan]
) -> None:
    files = {
        Path(mounted["target"]).name: COMPOSE["configs"][mounted["source"]]["content"]
        for mounted in SERVICES[kind].get("configs", [])
    }

    assert {n: json.loads(text) for n, text in files.items()} == {
        n: json.loads(text) for n, text in plan_of(kind).files.items()
    }
    for mounted in SERVICES[kind].get("configs", []):
        assert mounted["target"] in SERVICES[kind]["command"]


@pytest.mark.parametrize("kind", ENGINES)
def test_a_health_check_asks_the_route_and_port_of_the_adapter(kind: str) -> None:
    adapter, check = ADAPTERS[kind], SERVICES[kind]["healthcheck"]
    container = adapter.container
    assert container

    assert check["test"][-1] == f"http://127.0.0.1:{container.port}{adapter.health}"
    assert {"CMD", "--fail"} <= set(check["test"])
    assert check["start_period"] == "30m"


@pytest.mark.parametrize("kind", ENGINES)
def test_an_engine_has_one_gpu_a_profile_of_its_own_and_shared_memory(kind: str) -> None:
    service = SERVICES[kind]
    (gpu,) = service["deploy"]["resources"]["reservations"]["devices"]

    assert gpu["driver"] == "nvidia"
    assert gpu["capabilities"] == ["gpu"]
    assert len(gpu["device_ids"]) == 1
    assert service["profiles"] == [kind]
    assert service["shm_size"]


def test_the_client_sees_the_gpu_that_the_engines_have_and_computes_nothing_on_it() -> None:
    client = SERVICES["client"]
    (gpu,) = client["deploy"]["resources"]["reservations"]["devices"]

    assert gpu["device_ids"] == SERVICES["vllm"]["deploy"]["resources"]["reservations"]["devices"][0]["device_ids"]  # fmt: skip
    assert client["environment"] == {"NVIDIA_DRIVER_CAPABILITIES": "utility"}


def test_nothing_is_published_but_on_loopback_and_only_fetch_reaches_the_internet() -> None:
    for name, service in SERVICES.items():
        assert exposed(service.get("ports", [])) == [], name
        assert "network_mode" not in service
        assert not service.get("privileged")
        assert "ipc" not in service, f"{name} shares memory with the host"
        inside = [
            COMPOSE["networks"][network].get("internal", False) for network in service["networks"]
        ]
        assert inside == [name != "fetch"]


def test_secrets_are_passed_by_name_and_to_fetch_alone() -> None:
    for name, service in SERVICES.items():
        environment = service.get("environment", {})
        assert given_secrets(environment) == []
        assert [n for n in environment if SECRET.search(n)] == (
            ["HF_TOKEN"] if name == "fetch" else []
        )
    assert not re.search(r"TOKEN|_KEY|SECRET|PASSWORD", DOCKERFILE, re.IGNORECASE)


def test_models_are_read_only_for_all_but_fetch() -> None:
    for name, service in SERVICES.items():
        mounts = [volume for volume in service["volumes"] if volume["target"] == "/models"]
        assert [mount["read_only"] for mount in mounts] == [name != "fetch"]


# The image.


def test_the_image_runs_as_a_user_who_is_not_root_and_installs_under_the_constraints() -> None:
    user = re.findall(r"^USER (\d+):\d+$", DOCKERFILE, re.MULTILINE)[-1]
    assert int(user) > 0
    assert f"--uid {user} " in DOCKERFILE
    for name in OURS:
        assert filled(SERVICES[name]["user"]).startswith(f"{user}:")
        assert SERVICES[name]["cap_drop"] == ["ALL"]
    for install in re.findall(r"pip .*?install .*?(?:[^\\]\n)", DOCKERFILE, re.DOTALL):
        assert "--constraint /src/scripts/constraints.txt" in install
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (extras,) = re.findall(r'"/src\[(.+)\]"', DOCKERFILE)
    assert set(extras.split(",")) <= set(project["optional-dependencies"])


def test_the_build_is_sent_what_it_copies_and_nothing_else() -> None:
    copied = {
        word
        for line in re.findall(r"^COPY (.+)$", DOCKERFILE, re.MULTILINE)
        for word in line.split()[:-1]
    }
    lines = (ROOT / "Dockerfile.gpu.dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [line for line in lines if not line.startswith("#")]

    assert rules[0] == "*"
    assert {rule.removeprefix("!") for rule in rules if rule.startswith("!")} == copied
    assert [word for word in copied if not (ROOT / word).exists()] == []
    packages = ROOT / "pyproject.toml"
    wheel = tomllib.loads(packages.read_text(encoding="utf-8"))["tool"]["hatch"]["build"][
        "targets"
    ]["wheel"]
    assert set(wheel["packages"]) <= copied
