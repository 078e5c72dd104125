"""Each third-party package has its doors: the only places that may import it."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted(
    path
    for package in ("harness", "workloads", "engines", "reports")
    for path in (ROOT / package).rglob("*.py")
)
DOORS = {
    "torch": ("engines/inhouse/", "engines/hosted/"),
    "triton": ("engines/inhouse/paged_kernel.py",),
    "transformers": ("engines/hosted/",),
    "openvino": ("engines/hosted/",),
    "openvino_genai": ("engines/hosted/",),
    "aiohttp": ("engines/",),
    "httptools": ("harness/loadgen/",),
    "uvloop": ("harness/loadgen/",),
    "pandas": ("harness/analyzer/", "reports/"),
    "scipy": ("harness/analyzer/", "harness/gate/"),
    "seaborn": ("reports/",),
    "matplotlib": ("reports/",),
    "jinja2": ("reports/", "workloads/chat_text.py"),
    "typer": ("harness/cli",),
    "rich": ("harness/console.py",),
    "time": ("harness/core/clock.py",),
}
HEAVY = (
    "torch",
    "pandas",
    "numpy",
    "scipy",
    "seaborn",
    "matplotlib",
    "transformers",
    "openvino",
    "aiohttp",
    "jinja2",
)


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.partition(".")[0])
    return names


@pytest.mark.parametrize("package", DOORS)
def test_a_package_is_imported_only_through_its_doors(package: str) -> None:
    users = [p.relative_to(ROOT).as_posix() for p in SOURCES if package in imported(p)]

    assert [user for user in users if not user.startswith(DOORS[package])] == []


def test_the_core_imports_the_standard_library_alone() -> None:
    allowed = {*sys.stdlib_module_names, "harness"}
    others = {
        f"{path.name}: {name}"
        for path in SOURCES
        if path.is_relative_to(ROOT / "harness/core")
        for name in imported(path) - allowed
    }

    assert others == set()


def test_the_scheduler_imports_the_standard_library_alone() -> None:
    folder = ROOT / "engines/scheduling"
    others = {
        name
        for path in SOURCES
        if path.is_relative_to(folder)
        for name in imported(path) - {*sys.stdlib_module_names, "engines"}
    }

    assert others == set()


def test_the_command_line_loads_nothing_heavy_before_a_command_is_chosen() -> None:
    program = "import sys, harness.cli; print(*sorted(sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()

    assert [name for name in HEAVY if name in loaded] == []


def test_package_files_hold_a_docstring_and_nothing_else() -> None:
    for path in SOURCES:
        if path.name == "__init__.py":
            body = ast.parse(path.read_text(encoding="utf-8")).body
            assert len(body) == 1, path
            assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), path


def test_no_module_is_named_like_one_of_the_standard_library_or_a_dependency() -> None:
    taken = {*sys.stdlib_module_names, *DOORS}
    # Inside a package a name such as `harness.commands.run` hides nothing; packages must not.
    packages = {path.parent.name for path in SOURCES if path.name == "__init__.py"}

    assert packages & taken == set()


def test_random_numbers_come_only_from_generators_that_are_passed_in() -> None:
    calls = []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id == "random"
                and node.attr != "Random"
            ):
                calls.append(f"{path.relative_to(ROOT)}:{node.lineno}")

    assert calls == []
