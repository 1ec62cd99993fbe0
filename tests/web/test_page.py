"""The page in a real browser."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from made_runs import small_memory, write_run

import relive as rl
from relive.web.start import Page
from waiting import PATIENCE, until

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import expect

expect.set_options(timeout=1000 * PATIENCE)


NAMELESS = """() => [...document.querySelectorAll('input, select, button, img, svg[role]')].filter((each) =>
  !(each.labels?.length || each.getAttribute('aria-label') || each.hasAttribute('alt') || each.innerText)
).map((each) => each.outerHTML)"""
"""What a screen reader could not name."""


@pytest.fixture
def tab(browser):
    """A new tab; whatever it complains about fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page, wrong = context.new_page(), []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("dialog", lambda dialog: wrong.append(dialog.message))
    page.set_default_timeout(1000 * PATIENCE)
    yield page
    context.close()
    assert not wrong


def natural_width(tab, what: str) -> int:
    return tab.evaluate("what => document.querySelector(what)?.naturalWidth ?? 0", what)


def filmed(tab) -> int:
    """Episodes that were filmed, among those listed anew."""
    tab.locator("#reload-episodes").click()
    return tab.locator("#timelines rect.filmed").count()


def statuses(tab) -> dict[str, str]:
    rows = tab.locator("#run-table tbody tr").all()
    return {row.locator("th").inner_text(): row.locator(".badge").inner_text() for row in rows}


def test_runs_are_listed_compared_and_zoomed(tab, runs: Path) -> None:
    with Page(runs, {}).start() as page:
        tab.goto(page.url)
        expect(tab.locator("#run-table tbody tr")).to_have_count(4)
        assert "token" not in tab.url  # it is not in what people copy
        assert statuses(tab) == {"dqn/seed_1": "done", "dqn/seed_2": "done", "other": "failed", "killed": "killed"}
        expect(tab.locator("#curves svg")).to_have_count(1)
        expect(tab.locator("#curves .legend span")).to_have_count(3)
        expect(tab.locator("#curves .legend")).to_contain_text("dqn on CartPole-v1, 2 seeds")
        tab.uncheck("#bands")
        expect(tab.locator("#curves .legend span")).to_have_count(4)
        tab.get_by_label("Compare killed").uncheck()
        expect(tab.locator("#curves .legend span")).to_have_count(3)
        tab.select_option("#along", "cpu")
        expect(tab.locator("#curves svg")).to_have_attribute("aria-label", re.compile("along CPU time in seconds"))
        before = tab.locator("#curves svg").inner_html()
        tab.locator("#curves svg").focus()
        tab.keyboard.press("+")
        until(lambda: tab.locator("#curves svg").inner_html() != before)
        tab.locator("#zoom-out").click()
        until(lambda: tab.locator("#curves svg").inner_html() == before)
        tab.select_option("#metric", "train/loss")
        expect(tab.locator("#curves svg")).to_have_attribute("aria-label", re.compile("train/loss"))
        tab.locator("#settings summary").click()
        expect(tab.locator("#settings-table tbody th")).to_have_text(["run.seed", "dqn.gamma"])
        tab.uncheck("#only-differences")
        expect(tab.locator("#settings-table tbody tr.differs")).to_have_count(2)
        tab.locator("#events summary").click()
        expect(tab.locator("#event-list")).to_contain_text("actor 1 was lost")
        expect(tab.locator("#event-list")).to_contain_text("ValueError: no")


def test_a_run_that_trains_is_seen_live_and_its_end_too(tab, browser, tmp_path: Path) -> None:
    command = [
        sys.executable, "-m", "relive", "train", "maddpg", "simple_spread", "--steps", "100000000",
        "--folder", str(tmp_path / "runs" / "spread"), "--num-envs", "8", "--eval-every", "2000",
        "--eval-episodes", "5", "--hidden", "16", "--batch-size", "64", "--learning-starts", "500",
        "--capacity", "20000", "--save-every", "5000", "--per-alpha", "0.6", "--no-video",
    ]  # fmt: skip
    (tmp_path / "runs").mkdir()
    training = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with Page(tmp_path / "runs", {}).start() as page:
            tab.goto(page.url)
            expect(tab.locator("#run-table .badge")).to_have_text("going")
            tab.locator("#run-table button", has_text="live").click()
            expect(tab.locator("#memory-source")).to_have_text("live")
            expect(tab.locator("#numbers")).to_contain_text("effective sample size")
            held = tab.locator("#numbers dd").first
            before = held.inner_text()
            until(lambda: held.inner_text() != before)
            other = browser.new_context().new_page()  # a second tab of somebody else
            other.goto(f"{page.url}#memory?of=spread")
            expect(other.locator("#memory-source")).to_have_text("live")
            until(lambda: filmed(tab), pause=0.3)
            mark = tab.locator("#timelines rect.filmed").last
            mark.focus()
            mark.press("Enter")
            expect(tab.locator("#episode h4")).to_contain_text("25 steps, truncated")
            until(lambda: natural_width(tab, "#film") > 100)
            expect(tab.locator("#episode figure")).to_have_count(3)
            tab.get_by_role("button", name="Show this row").click()
            expect(tab.locator("#row figure")).to_have_count(2)
            expect(tab.locator("#row")).to_contain_text("next_obs")
            other.context.close()
            training.send_signal(signal.SIGKILL)
            training.wait()
            tab.locator("#show-runs").click()
            expect(tab.locator("#run-table .badge")).to_have_text("killed")
            tab.locator("#run-table button", has_text="checkpoint").click()
            expect(tab.locator("#memory-source")).to_have_text("checkpoint")
            expect(tab.locator("#numbers")).to_contain_text("steps held")
    finally:
        training.kill()
        training.wait()


def test_a_memory_of_ones_own_and_its_pictures(tab) -> None:
    memory = small_memory()
    with rl.serve(memory, name="loop") as page:
        tab.goto(page.url)
        expect(tab.locator("#memory-title")).to_be_visible()  # there are no runs to show
        expect(tab.locator("#memory-source")).to_have_text("given")
        expect(tab.locator("#numbers")).to_contain_text("late updates dropped")
        for _ in range(3):
            memory.sample(64)
        expect(tab.locator("#draws svg")).to_have_count(1)
        tab.fill("#lane", "1")
        tab.locator("#lane").press("Enter")
        expect(tab.locator("#timelines text").first).to_have_text("lane 1")
        tab.locator("#timelines rect").nth(2).click()
        expect(tab.locator("#episode h4")).to_contain_text("Lane 1")
        until(lambda: natural_width(tab, "#episode img.pixels") == 12)
        tab.get_by_label("Step", exact=True).fill("3")
        expect(tab.locator("#episode output")).to_contain_text("step 3")
        tab.fill("#row-serial", "999999")
        tab.locator("#row-form button").click()
        expect(tab.locator("#row .note")).to_contain_text("serial must be of a row that is held")


def test_the_page_recovers_when_the_server_does(tab, runs: Path) -> None:
    page = Page(runs, {}).start()
    tab.goto(page.url)
    expect(tab.locator("#connection")).to_have_text("live")
    page.close()
    expect(tab.locator("#connection")).to_have_text("the server does not answer; trying again")
    write_run(runs / "new", 7)
    again = Page(runs, {}, port=page.port, token=page.token).start()
    try:
        expect(tab.locator("#connection")).to_have_text("live")
        expect(tab.locator("#run-table tbody tr")).to_have_count(5)
    finally:
        again.close()


def test_the_page_recovers_from_an_answer_that_is_no_stream(tab, runs: Path) -> None:
    with Page(runs, {}).start() as page:
        tab.route("**/events*", lambda route: route.fulfill(status=503))  # as a server that is shutting down answers
        tab.goto(page.url)
        expect(tab.locator("#connection")).to_have_text("the server does not answer; trying again")
        tab.unroute("**/events*")
        expect(tab.locator("#connection")).to_have_text("live")


def test_a_wrong_token_shows_nothing(tab, runs: Path) -> None:
    with Page(runs, {}).start() as page:
        answer = tab.goto(page.url.replace(page.token, "0" * 32))
        assert answer.status == 401
        assert "CartPole" not in tab.content()
        found = tab.evaluate("fetch('/events').then((answer) => answer.status)")
        assert found == 401


@pytest.mark.parametrize("width", [360, 1280])
def test_it_fits_a_phone_and_can_be_named_by_a_screen_reader(browser, runs: Path, width: int) -> None:
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme="dark")
    tab = context.new_page()
    with Page(runs, {"mine": small_memory()}).start() as page:
        for part in ("", "#memory?of=mine"):
            tab.goto(page.url + part)
            tab.goto(page.url.partition("?")[0] + part)
            expect(tab.locator("#connection")).to_have_text("live")
            expect(tab.locator("#numbers div" if part else "#curves svg").first).to_be_visible()
            assert tab.evaluate("document.scrollingElement.scrollWidth <= innerWidth")
            assert tab.evaluate(NAMELESS) == []
            sizes = tab.evaluate("performance.getEntriesByType('resource').map((each) => each.transferSize)")
            assert sum(sizes) < 500_000
    context.close()


def test_names_from_files_are_text(tab, tmp_path: Path) -> None:
    bad = "<img src=x onerror=alert(1)>"
    write_run(tmp_path / "runs" / bad, 1, env=bad)
    with Page(tmp_path / "runs", {bad: small_memory()}).start() as page:
        tab.goto(page.url)
        expect(tab.locator("#run-table tbody th")).to_have_text(bad)
        expect(tab.locator("#curves svg")).to_have_count(1)
        assert tab.locator("img[src=x]").count() == 0
