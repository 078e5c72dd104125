"""From the engine that the user names to its adapter, plug-ins included."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from engines.http_server import HttpServer
from engines.kinds import KINDS
from engines.registry import known_engines, open_engine, policies
from harness.core.clock import VirtualClock
from harness.core.engine import Engine, EngineSpec
from harness.core.errors import UsageError

SPEC = EngineSpec(kind="inhouse", name="inhouse-static", model="m", policy="static", slots=4)
PLUGIN = '''
def open_tiny(spec, folder, clock):
    """A tiny engine of somebody else."""
    return ("tiny", spec.name, folder.name)
NOT_CALLABLE = 3
'''


@pytest.mark.parametrize("kind", KINDS)
def test_every_known_kind_opens(kind: str, tmp_path: Path) -> None:
    url = "http://127.0.0.1:1" if kind == "openai" else None
    spec = EngineSpec(kind=kind, name="e", model="m", attach_url=url)
    engine: Engine = open_engine(spec, tmp_path, VirtualClock())

    assert engine.spec == spec
    assert engine.capabilities.counts


def test_an_unknown_kind_is_refused_with_those_known(tmp_path: Path) -> None:
    spec = EngineSpec(kind="warp", name="e", model="m")

    with pytest.raises(
        UsageError, match=r"unknown engine 'warp'; known are inhouse, .*openai; see"
    ):
        open_engine(spec, tmp_path, VirtualClock())


def test_the_first_policy_of_a_kind_is_its_own() -> None:
    assert policies()["inhouse"][0] == "continuous"
    assert policies()["tensorrt-llm"][0] == "GUARANTEED_NO_EVICT"
    assert "vllm" not in policies()


def test_opening_one_engine_loads_the_adapters_of_no_other() -> None:
    program = (
        "import sys; from pathlib import Path; from engines.registry import open_engine;"
        "from harness.core.clock import VirtualClock; from harness.core.engine import EngineSpec;"
        "open_engine(EngineSpec('vllm', 'e', 'm'), Path('x'), VirtualClock());"
        "print(*sorted(n for n in sys.modules if n.endswith('_server')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == ["engines.http_server", "engines.vllm_server"]


def test_a_program_is_found_by_the_variable_of_its_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BATCHMARK_LLAMA_CPP", "/venv/bin/llama-server")
    spec = EngineSpec(kind="llama-cpp", name="e", model="m")
    named = EngineSpec(kind="llama-cpp", name="e", model="m", program="/mine")

    assert open_engine(spec, tmp_path, VirtualClock()).plan.argv[0] == "/venv/bin/llama-server"
    assert open_engine(named, tmp_path, VirtualClock()).plan.argv[0] == "/mine"


def test_planning_asks_for_no_key_and_no_tokenizer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    spec = EngineSpec(kind="tgi", name="e", model="org/m", api_key_env="NO_SUCH_KEY")

    assert open_engine(spec, tmp_path, VirtualClock()).plan.keys == {"API_KEY": "NO_SUCH_KEY"}


def test_stopping_an_engine_that_never_started_is_fine(tmp_path: Path) -> None:
    engine = open_engine(SPEC, tmp_path, VirtualClock())
    assert isinstance(engine, HttpServer)

    engine.raise_if_dead()
    asyncio.run(engine.stop())
    assert list(tmp_path.iterdir()) == []


# --- plug-ins ---


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    """Puts a distribution with entry points on the path of imports."""

    def put(**points: str) -> None:
        site = tmp_path / "site"
        info = site / "tiny_engine-1.0.dist-info"
        info.mkdir(parents=True)
        (site / "tiny_engine.py").write_text(PLUGIN)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny-engine\nVersion: 1.0\n")
        lines = "".join(f"{kind} = {target}\n" for kind, target in points.items())
        (info / "entry_points.txt").write_text(f"[batchmark.engines]\n{lines}")
        monkeypatch.syspath_prepend(str(site))

    return put


def test_a_plug_in_is_an_engine_like_others(install, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    install(tiny="tiny_engine:open_tiny")
    spec = EngineSpec(kind="tiny", name="mine", model="m")

    assert open_engine(spec, tmp_path / "r", VirtualClock()) == ("tiny", "mine", "r")
    (listed,) = (engine for engine in known_engines() if engine.kind == "tiny")
    assert listed.title == "A tiny engine of somebody else."
    assert listed.problem is None


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("no_such_module:f", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("tiny_engine:missing", "AttributeError"),
        ("tiny_engine:NOT_CALLABLE", "is no function of a spec, folder and clock"),
    ],
)
def test_a_broken_plug_in_is_told_in_a_line_and_breaks_nothing_else(  # type: ignore[no-untyped-def]
    install, tmp_path: Path, target: str, why: str
) -> None:
    install(tiny=target, good="tiny_engine:open_tiny")
    problems = {engine.kind: engine.problem for engine in known_engines()}

    assert why in str(problems["tiny"])
    assert "\n" not in str(problems["tiny"])
    assert [kind for kind, problem in problems.items() if problem] == ["tiny"]
    with pytest.raises(UsageError, match="engine tiny: the plug-in .* of tiny-engine"):
        open_engine(EngineSpec(kind="tiny", name="e", model="m"), tmp_path, VirtualClock())


def test_a_plug_in_hides_no_kind_that_comes_with_batchmark(install, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    install(inhouse="tiny_engine:open_tiny")

    assert isinstance(open_engine(SPEC, tmp_path, VirtualClock()), HttpServer)
    assert [engine.kind for engine in known_engines()].count("inhouse") == 1
