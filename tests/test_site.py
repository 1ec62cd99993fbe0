"""The documentation as a site: built with warnings as errors, every link followed, nothing from elsewhere."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

import relive
from waiting import PATIENCE

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "docs" / "reference"
LISTED = ["relive.envs", "relive.training", "relive.learn", "relive.distributed", "relive.memory.targets"]


class Page(HTMLParser):
    """The anchors of a page, what it links to, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in ("script", "img", "iframe", "source", "video", "audio") and "src" in given:
            self.loaded.append(given["src"])
        if tag == "link" and given.get("rel") not in ("canonical", "prev", "next"):
            self.loaded.append(given["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built once, as `make docs` does."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {file: Page(file.read_text()) for file in sorted(site.rglob("*.html"))}


@pytest.mark.slow
def test_every_page_of_the_folder_is_built(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        assert (site / page.relative_to(ROOT / "docs")).with_suffix(".html").exists(), page


@pytest.mark.slow
def test_links_and_anchors_lead_somewhere(site: Path, pages: dict[Path, Page]) -> None:
    lost, followed = [], 0
    for file, page in pages.items():
        if file.name == "404.html":  # served at any address, so its links are from the top
            continue
        for link in [*page.links, *page.loaded]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            followed += 1
            to = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            to = to / "index.html" if to.is_dir() else to
            if not to.exists() or not to.is_relative_to(site.resolve()):
                lost.append(f"{file.relative_to(site)}: {link}")
            elif parts.fragment and to in pages and unquote(parts.fragment) not in pages[to].anchors:
                lost.append(f"{file.relative_to(site)}: {link} has no such anchor")
    assert not lost, "\n".join(lost)
    assert followed > 1_000


@pytest.mark.slow
def test_nothing_is_loaded_from_elsewhere(site: Path, pages: dict[Path, Page]) -> None:
    for file, page in pages.items():
        for loaded in page.loaded:
            assert loaded.startswith("data:") or not re.match(r"(\w+:)?//", loaded), f"{file}: {loaded}"
    for style in site.rglob("*.css"):
        text = style.read_text()
        assert not re.search(r"@import|url\(\s*[\"']?(?:https?:)?//", text), style


@pytest.mark.slow
def test_search_finds_public_names_offline(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text())
    text = "\n".join(f"{entry['location']} {entry['title']} {entry['text']}" for entry in index["docs"])
    for name in [*relive.__all__, "update_priorities", "burn_in", "final_obs", "simple_spread"]:
        assert name in text, name
    assert (site / "search" / "search_index.js").exists()  # what is read where pages are opened from the disk


@pytest.mark.slow
def test_search_works_from_the_disk_and_loads_nothing_else(site: Path) -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("left out: no Chromium here (apt-get install chromium)")
    from playwright.sync_api import sync_playwright

    asked: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.goto((site / "guides" / "dqn.html").as_uri())
        page.click("input[name=query]")
        page.locator("input[name=query]").press_sequentially("burn_in")
        page.wait_for_selector(".md-search-result__item", state="attached", timeout=1000 * PATIENCE)
        found = page.locator(".md-search-result__item a").evaluate_all("links => links.map(link => link.href)")
        browser.close()
    assert any("windows.html" in link or "recurrent.html" in link for link in found), found
    assert all(url.startswith(("file:", "data:")) for url in asked), asked


@cache
def _reference() -> str:
    return "\n".join(file.read_text() for file in sorted(REFERENCE.glob("*.md")))


def _snippets() -> str:
    return "\n".join(re.findall(r"^```python\n(.*?)^```", _reference(), re.M | re.S))


def _listed() -> list[tuple[str, str]]:
    names = [("relive", name) for name in relive.__all__]
    return names + [(module, name) for module in LISTED for name in importlib.import_module(module).__all__]


@pytest.mark.parametrize(("module", "name"), _listed(), ids=lambda value: value.removeprefix("relive."))
def test_public_names_have_a_reference_and_an_example(module: str, name: str) -> None:
    thing: Any = getattr(importlib.import_module(module), name)
    shown = module.replace("relive.memory.targets", "relive.targets")
    where = {f"{shown}.{name}", f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', '')}"}
    if inspect.ismodule(thing):
        assert re.search(rf"^::: {re.escape(shown)}\.{name}\b", _reference(), re.M)
    else:
        assert any(f"::: {path}\n" in _reference() for path in where), where
    doctest = ">>>" in (inspect.getdoc(thing) or "") and not inspect.ismodule(thing)
    assert doctest or re.search(rf"\b{name}\b", _snippets()), f"{module}.{name} has no example that is run"
