"""Draws docs/images/page-*.png: ``python tools/page_pictures.py`` trains four small runs and looks at the page.

It needs Chromium and the dev extra, and takes two minutes.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from relive.web.start import Page

IMAGES = Path(__file__).parents[1] / "docs" / "images"
TRAIN = [sys.executable, "-m", "relive", "train"]
CARTPOLE = "dqn CartPole-v1 --steps 6000 --seeds 1 2 3 --folder dqn"
SPREAD = "maddpg simple_spread --steps 900000 --capacity 38464 --per-alpha 0.6 --folder maddpg-spread"


def main() -> None:
    """Train, look and save what is seen."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        subprocess.run([*TRAIN, *CARTPOLE.split()], cwd=folder, check=True, capture_output=True)
        live = subprocess.Popen([*TRAIN, *SPREAD.split()], cwd=folder, stdout=subprocess.DEVNULL)
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        try:
            with Page(Path(folder), {}).start() as page:
                tab = browser.new_page(viewport={"width": 1180, "height": 760})
                tab.goto(page.url)
                tab.locator("#run-table .badge", has_text="going").wait_for()
                tab.wait_for_timeout(25_000)
                tab.get_by_label("Compare maddpg-spread").uncheck()
                tab.wait_for_timeout(2_000)
                tab.screenshot(path=IMAGES / "page-runs.png")
                tab.locator("#run-table button", has_text="live").click()
                tab.wait_for_timeout(40_000)
                tab.locator("#reload-episodes").click()
                tab.locator("#timelines rect.filmed").last.press("Enter")
                tab.wait_for_timeout(4_000)
                tab.evaluate("scrollTo(0, 0)")
                tab.screenshot(path=IMAGES / "page-memory.png", full_page=True)
        finally:
            live.terminate()
            live.wait()


if __name__ == "__main__":
    main()
