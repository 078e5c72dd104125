"""scripts/gpu-engines, run on a stand-in for docker that notes what it is told."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from engines.adapter import Adapter
from engines.sglang_server import SGLANG
from engines.tensorrt_llm_server import TENSORRT_LLM
from engines.tgi_server import TGI
from engines.versions import versions
from engines.vllm_server import VLLM

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts/gpu-engines"
ADAPTERS: dict[str, Adapter] = {a.kind: a for a in (VLLM, TGI, TENSORRT_LLM, SGLANG)}
CANARY = "hf_canary_4711"

STAND_IN = """\
import json, os, pathlib, signal, sys
words = sys.argv[1:]
here = pathlib.Path(os.environ["STAND_IN"])
with (here / "told.jsonl").open("a") as file:
    file.write(json.dumps(words) + "\\n")
orders = json.loads((here / "orders.json").read_text())
line = " ".join([pathlib.Path(sys.argv[0]).name, *words])
for part, (code, text) in orders.items():
    if part in line:
        print(text)
        if text == "hang":
            (here / "hangs").touch()
            signal.alarm(30)  # if nobody ends it
            signal.pause()
        sys.exit(code)
if " client run " in line:
    out, name = words[words.index("--out") + 1], words[words.index("--engine") + 1]
    for i in range(int(words[words.index("--repeats") + 1])):
        run = pathlib.Path(os.environ["BATCHMARK_RUNS"], *out.split("/")[1:], f"{name}-{i + 1}")
        run.mkdir(parents=True)
        (run / "manifest.json").write_text('{"status": "complete"}')
"""


@dataclass
class Machine:
    """A folder with stand-ins for docker and nvidia-smi, and how the script fares with them.

    `orders` maps a part of a command line to the exit code and the text that answer it.
    """

    folder: Path
    model: Path
    orders: dict[str, tuple[int, str]] = field(
        default_factory=lambda: {
            "compose version": (0, "2.40.1"),
            "nvidia-smi -L": (0, "GPU 0: H200"),
        }
    )
    programs: tuple[str, ...] = ("docker", "nvidia-smi")

    def start(self, *words: str, model: Path | None = None) -> subprocess.Popen[str]:
        (self.folder / "orders.json").write_text(json.dumps(self.orders))
        (self.folder / "told.jsonl").write_text("")
        for name in self.programs:
            program = self.folder / name
            program.write_text(f"#!{sys.executable}\n{STAND_IN}")
            program.chmod(0o755)
        environment = {
            "PATH": str(self.folder),
            "STAND_IN": str(self.folder),
            "HF_TOKEN": CANARY,
            "HOME": os.environ.get("HOME", "/"),
        }
        command = [sys.executable, str(SCRIPT), "--model", str(model or self.model), "--runs", str(self.folder / "runs"), *words]  # fmt: skip
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment)

    def run(self, *words: str, model: Path | None = None) -> subprocess.CompletedProcess[str]:
        process = self.start(*words, model=model)
        out, err = process.communicate()
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def told(self) -> list[list[str]]:
        """What docker was told to do with the services, without the words that are always there."""
        lines = (self.folder / "told.jsonl").read_text().splitlines()
        prefix = ["compose", "--file", "compose.gpu.yaml"]
        words = [json.loads(line) for line in lines]
        return [line[3:] for line in words if line[:3] == prefix and "ps" not in line]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    model = tmp_path / "models" / "model"
    model.mkdir(parents=True)
    for name in ("config.json", "tokenizer.json"):
        (model / name).write_text("{}")
    return Machine(tmp_path, model)


DOWN = ["--profile", "*", "down", "--remove-orphans"]


def steps(told: list[list[str]]) -> list[str]:
    """Commands in short: `up vllm`, `measure vllm`, `down`, `report`."""
    short = []
    for words in told:
        if words == DOWN:
            short.append("down")
        elif words[:3] == ["run", "--rm", "client"]:
            what = words[3]
            short.append(
                "report" if what == "report" else f"measure {words[words.index('--engine') + 1]}"
            )
        else:
            short.append(f"{words[0]} {words[-1]}")
    return short


def test_engines_are_measured_one_after_the_other_and_then_compared(machine: Machine) -> None:
    done = machine.run("sglang", "tgi", "--baseline", "tgi", "--repeats", "2", "--seed", "5")

    assert done.returncode == 0, done.stderr
    told = machine.told()
    assert steps(told) == [
        "build client",
        "up sglang", "measure sglang", "down",
        "up tgi", "measure tgi", "down",
        "report", "down",
    ]  # fmt: skip
    assert "--wait" in told[1]
    report = next(words for words in told if words[3:4] == ["report"])
    assert report[-4:-2] == ["--baseline", "tgi"]
    folders = [word for word in report if re.search(r"/(sglang|tgi)-\d$", word)]
    assert [Path(folder).name for folder in folders] == ["sglang-1", "sglang-2", "tgi-1", "tgi-2"]
    # Every engine is sent the same bytes.
    assert all(words[words.index("--seed") + 1] == "5" for words in told if "--engine" in words)
    assert CANARY not in done.stdout + done.stderr


@pytest.mark.parametrize("kind", ADAPTERS)
def test_the_client_attaches_to_the_service_at_the_port_of_its_adapter(
    kind: str, machine: Machine
) -> None:
    container = ADAPTERS[kind].container
    assert container
    words = shlex.split(machine.run(kind, "--plan").stdout)

    assert words[words.index("--attach") + 1] == f"http://{kind}:{container.port}"
    assert words[words.index("--model") + 1] == "/models/model"


def test_a_plan_names_the_images_of_the_table_and_runs_nothing(machine: Machine) -> None:
    machine.programs = ()
    done = machine.run("--plan")

    assert done.returncode == 0, done.stderr
    exported = dict(re.findall(r"^export (\w+)=(\S+)$", done.stdout, re.MULTILINE))
    for kind in ADAPTERS:
        variable = f"BATCHMARK_{kind.upper().replace('-', '_')}_IMAGE"
        assert exported[variable] == versions()[kind].image
    assert exported["BATCHMARK_VLLM_VERSION"] == versions()["vllm"].written_for
    assert f"{exported['BATCHMARK_MODELS']}/{exported['BATCHMARK_MODEL']}" == str(machine.model)
    assert (machine.folder / "told.jsonl").read_text() == ""
    assert not (machine.folder / "runs").exists()
    assert CANARY not in done.stdout


def test_what_the_script_exports_is_what_the_services_ask_for(machine: Machine) -> None:
    text = (ROOT / "compose.gpu.yaml").read_text(encoding="utf-8")
    asked = set(re.findall(r"\$\{(BATCHMARK_\w+)", text))
    exported = set(re.findall(r"^export (\w+)=", machine.run("--plan").stdout, re.MULTILINE))

    assert exported == asked


def test_a_plan_is_what_a_shell_takes(machine: Machine) -> None:
    plan = machine.run("vllm", "--plan", "--repeats", "3").stdout
    environment = {"PATH": f"{machine.folder}:/usr/bin:/bin", "STAND_IN": str(machine.folder)}
    done = subprocess.run(["bash", "-e"], input=plan, capture_output=True, text=True, env=environment, check=False)  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert steps(machine.told()) == [
        "build client", "up vllm", "measure vllm", "down", "report", "down",
    ]  # fmt: skip


def test_an_engine_that_does_not_start_is_told_removed_and_left_out(machine: Machine) -> None:
    machine.orders["up --detach --wait --wait-timeout 1800 tgi"] = (1, "unhealthy")
    done = machine.run("vllm", "tgi", "sglang")

    assert done.returncode == 4
    assert steps(machine.told()) == [
        "build client",
        "up vllm", "measure vllm", "down",
        "up tgi", "logs tgi", "down",
        "up sglang", "measure sglang", "down",
        "report", "down",
    ]  # fmt: skip
    assert "tgi-1" not in machine.told()[-2]
    assert "error: not measured: tgi; see above" in done.stderr


def test_without_the_baseline_nothing_is_compared(machine: Machine) -> None:
    machine.orders["--engine vllm"] = (4, "engine failed")
    done = machine.run("vllm", "tgi")

    assert done.returncode == 4
    assert "report" not in steps(machine.told())
    assert steps(machine.told())[-1] == "down"
    assert "the baseline vllm was not measured, so nothing is compared to it" in done.stderr


@pytest.mark.parametrize(
    ("sent", "code"),
    [(signal.SIGTERM, 143), pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow)],
)
def test_the_engine_is_removed_when_the_script_is_ended(
    sent: signal.Signals, code: int, machine: Machine
) -> None:
    machine.orders["--engine tgi"] = (0, "hang")
    process = machine.start("vllm", "tgi", "sglang")
    while not (machine.folder / "hangs").exists() and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(sent)
    process.communicate()

    assert process.returncode == code
    assert steps(machine.told())[-3:] == ["up tgi", "measure tgi", "down"]


NO_DOCKER = "there is no docker here; install Docker Engine with its compose plugin"
NO_COMPOSE = "docker has no `docker compose` here; install the compose plugin"
OLD = "docker compose is v2.20.3; 2.23.1 or newer is needed: update it"
SILENT = "docker does not answer: Cannot connect to the Docker daemon"
NO_SMI = "this machine shows no NVIDIA GPU (there is no nvidia-smi); run it where there is one"
NO_GPU = "this machine shows no NVIDIA GPU (nvidia-smi says: no devices); run it where there is one"
TAKEN = "engines or a client of compose.gpu.yaml are running already; end them with: docker compose"


@pytest.mark.parametrize(
    ("programs", "orders", "said"),
    [
        ((), {}, NO_DOCKER),
        (("docker",), {"compose version": (1, "docker: unknown command")}, NO_COMPOSE),
        (("docker",), {"compose version": (0, "v2.20.3")}, OLD),
        (("docker",), {"docker info": (1, SILENT.partition(": ")[2])}, SILENT),
        (("docker",), {}, NO_SMI),
        (("docker", "nvidia-smi"), {"nvidia-smi -L": (9, "no devices")}, NO_GPU),
        (("docker", "nvidia-smi"), {"ps --quiet": (0, "4f1a")}, TAKEN),
    ],
)
def test_what_is_missing_is_told_in_a_line_before_anything_is_started(
    programs: tuple[str, ...], orders: dict[str, tuple[int, str]], said: str, machine: Machine
) -> None:
    machine.programs, machine.orders = programs, machine.orders | orders
    done = machine.run()

    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {said}")
    assert done.stderr.count("\n") == 1
    assert machine.told() == []


def without_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()


def with_link(folder: Path) -> None:
    (folder / "model.safetensors").symlink_to("/nowhere/blob")


@pytest.mark.parametrize(
    ("name", "break_it", "words", "said"),
    [
        ("m", lambda folder: (folder / "config.json").unlink(), (), "m has no config.json; give a"),
        ("m", without_tokenizer, (), "m has no tokenizer.json, which tgi needs; give a Hugging Face"),
        ("m", with_link, (), "model.safetensors is a link out of the folder, which a container cannot"),
        ("a b", lambda _: None, (), "the folder's name 'a b' does for no engine; use letters, digits"),
        ("m", lambda _: None, ("orca",), "unknown engine 'orca'; choose from vllm, tgi, tensorrt-llm"),
        ("m", lambda _: None, ("tgi", "--baseline", "vllm"), "'vllm', which is not measured"),
        ("m", lambda _: None, ("--slots", "0"), "--slots is 0; it must be above 0"),
    ],
)  # fmt: skip
def test_a_job_that_cannot_work_is_told_before_anything_is_started(
    name: str, break_it: Callable[[Path], None], words: tuple[str, ...], said: str, machine: Machine
) -> None:
    folder = machine.folder / name
    folder.mkdir()
    for file in machine.model.iterdir():
        (folder / file.name).write_text(file.read_text())
    break_it(folder)
    done = machine.run(*words, model=folder)

    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert machine.told() == []


def test_a_model_without_a_tokenizer_does_for_engines_that_take_token_ids(machine: Machine) -> None:
    folder = machine.folder / "bare"
    folder.mkdir()
    (folder / "config.json").write_text("{}")

    assert machine.run("vllm", "--plan", model=folder).returncode == 0
