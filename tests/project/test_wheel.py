"""The built wheel holds the four packages with their data, and nothing else."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(folder), "."]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    (wheel,) = folder.glob("batchmark-*.whl")
    with zipfile.ZipFile(wheel) as file:
        return set(file.namelist())


def test_the_wheel_holds_four_packages_and_its_metadata(members: set[str]) -> None:
    tops = {member.partition("/")[0] for member in members}

    assert {top for top in tops if not top.endswith(".dist-info")} == {
        "harness", "workloads", "engines", "reports",
    }  # fmt: skip


def test_the_wheel_holds_every_source_file_specification_and_template(members: set[str]) -> None:
    kinds = ("*.py", "*.toml", "*.j2", "*.css", "py.typed")
    wanted = {
        path.relative_to(ROOT).as_posix()
        for package in ("harness", "workloads", "engines", "reports")
        for kind in kinds
        for path in (ROOT / package).rglob(kind)
    }

    assert wanted - members == set()


def test_the_wheel_holds_what_others_have_published(members: set[str]) -> None:
    claims = {member for member in members if member.startswith("reports/baselines/")}

    assert len(claims) >= 10
    assert {claim.rpartition(".")[2] for claim in claims} == {"toml"}
