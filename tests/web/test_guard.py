"""Who is let in, and what can be asked for: whatever comes from elsewhere is refused and says nothing."""

from urllib.parse import quote

import pytest
from asking import get

from relive.web.start import Page

PATHS = ("/", "/api/overview", "/api/run?run=other", "/api/curve?run=other", "/api/memory?memory=mine", "/events",
         "/api/picture?run=other&file=curve.png")  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_without_the_token_nothing_is_shown(page: Page, path: str) -> None:
    assert get(page, path, token=False)[0] == 401
    joint = "&" if "?" in path else "?"
    for wrong in ("", "x", page.token[:-1], page.token + "x", "é" * 32):
        assert get(page, f"{path}{joint}token={quote(wrong)}", token=False)[0] == 401
        assert get(page, path, token=False, Cookie=f"relive-{page.port}={quote(wrong)}")[0] == 401


@pytest.mark.parametrize("path", PATHS)
def test_other_names_of_this_machine_and_other_pages_are_refused(page: Page, path: str) -> None:
    for host in ("evil.example", f"evil.example:{page.port}", f"127.0.0.1.evil.example:{page.port}", "",
                 "[::1", "[", "]", f"127.0.0.1:{page.port}@evil.example"):  # fmt: skip
        assert get(page, path, Host=host)[0] in (400, 403)
    for origin in (
        "http://evil.example",
        "null",
        f"http://127.0.0.1:{page.port + 1}",
        f"https://evil:{page.port}",
        "http://[",
        "http://]",
    ):
        assert get(page, path, Origin=origin)[0] == 403
    assert get(page, path, Sec_Fetch_Site="cross-site")[0] == 403
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert get(page, path, method)[0] == 405


def test_the_page_itself_is_let_in(page: Page) -> None:
    status, headers, _ = get(page, f"/?token={page.token}", token=False)
    assert (status, headers["location"]) == (303, "/")
    cookie = headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    for host in ("localhost", "127.0.0.1", "[::1]"):
        assert get(page, "/", Host=f"{host}:{page.port}")[0] == 200
    assert get(page, "/api/overview", Origin=f"http://127.0.0.1:{page.port}")[0] == 200
    status, headers, data = get(page, "/")
    assert headers["content-security-policy"].startswith("default-src 'self'")
    assert headers["x-content-type-options"] == "nosniff"
    assert b"http://" not in data  # nothing from elsewhere
    status, headers, data = get(page, "/events?memory=mine")
    assert (status, headers["content-type"].partition(";")[0]) == (200, "text/event-stream")
