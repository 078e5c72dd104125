"""A browser for the tests that read pages as a reader does: Debian's Chromium, by Playwright.

One browser serves a file of tests, not the whole session: while Playwright runs, `asyncio.run` of
other tests would find its event loop. `BATCHMARK_SHOTS` names a folder that keeps the screenshots.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium")
FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
]
GRAVE = ("serious", "critical")

Look = Callable[..., Any]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def look(browser: Any) -> Iterator[Look]:
    """Opens a page: look(address, width=1200, scheme="light", before=script, is_site=False).

    The test fails in the end if a page complained on the console or asked for anything but itself,
    or, of a site, for anything that does not lie below its address.
    """
    contexts, complaints, asked = [], [], []
    addresses, sites = set[str](), list[str]()

    def hear(message: Any) -> None:
        if message.type in ("error", "warning"):
            complaints.append(message.text)

    def open_page(
        address: str,
        *,
        width: int = 1200,
        scheme: str = "light",
        before: str = "",
        is_site: bool = False,
        **how: Any,
    ) -> Any:
        size = {"width": width, "height": 900}
        context = browser.new_context(viewport=size, color_scheme=scheme, **how)
        contexts.append(context)
        if before:
            context.add_init_script(before)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("console", hear)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: asked.append(request.url.partition("#")[0]))
        addresses.add(address.partition("#")[0])
        sites.extend([address] * is_site)
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []
    others = [url for url in asked if url not in addresses and not url.startswith(tuple(sites))]
    assert others == [], "a page asked for something else"


@pytest.fixture
def grave_faults() -> Callable[[Any], list[str]]:
    """The faults of a page that axe calls serious or critical, each with its element."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")

    def find(page: Any) -> list[str]:
        found = axe.Axe().run(page, options={"resultTypes": ["violations"]}).response
        return [
            f"{fault['id']}: {node['html']}"
            for fault in found["violations"]
            if fault["impact"] in GRAVE
            for node in fault["nodes"]
        ]

    return find


@pytest.fixture
def shots(tmp_path: Path) -> Path:
    """Where screenshots go."""
    folder = Path(os.environ.get("BATCHMARK_SHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder
