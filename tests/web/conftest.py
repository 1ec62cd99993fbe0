"""A page on a folder of runs, and what a browser needs."""

import shutil
from pathlib import Path

import pytest
from made_runs import small_memory, write_run

from relive.web.start import Page


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    write_run(folder / "dqn" / "seed_1", 1)
    write_run(folder / "dqn" / "seed_2", 2)
    write_run(folder / "other", 1, state="failed", gamma=0.5)
    write_run(folder / "killed", 1, state="going", gamma=0.7)
    (tmp_path / "secret.png").write_text("secret")
    return folder


@pytest.fixture
def page(runs: Path):
    with Page(runs, {"mine": small_memory()}).start() as page:
        yield page


@pytest.fixture(scope="session")
def browser():
    """Chromium of the system; tests that need it are left out where there is none."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("left out: no Chromium here (apt-get install chromium)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()
