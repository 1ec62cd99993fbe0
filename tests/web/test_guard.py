"""Who is let in, and what can be asked for: whatever comes from elsewhere is refused and says nothing."""

import http.client
import json
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
from made_runs import small_memory, write_run

import recollect as rc
from recollect.errors import OptionError
from recollect.web.start import Page

PATHS = ("/", "/api/overview", "/api/run?run=other", "/api/curve?run=other", "/api/memory?memory=mine", "/events",
         "/api/picture?run=other&file=curve.png")  # fmt: skip


@pytest.fixture
def page(runs: Path):
    with Page(runs, {"mine": small_memory()}).start() as page:
        yield page


def get(page: Page, path: str, method: str = "GET", token: bool = True, **headers) -> tuple[int, dict, bytes]:
    """Status, headers and the beginning of what comes back."""
    connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=10)
    given = {"Cookie": f"recollect-{page.port}={page.token}"} if token else {}
    connection.putrequest(method, path, skip_host="Host" in headers, skip_accept_encoding=True)
    for name, value in {**given, **headers}.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    answer = connection.getresponse()
    data = answer.read1(1000) if "event-stream" in (answer.getheader("content-type") or "") else answer.read()
    connection.close()
    return answer.status, {key.lower(): value for key, value in answer.getheaders()}, data


@pytest.mark.parametrize("path", PATHS)
def test_without_the_token_nothing_is_shown(page: Page, path: str) -> None:
    assert get(page, path, token=False)[0] == 401
    joint = "&" if "?" in path else "?"
    for wrong in ("", "x", page.token[:-1], page.token + "x", "é" * 32):
        assert get(page, f"{path}{joint}token={quote(wrong)}", token=False)[0] == 401
        assert get(page, path, token=False, Cookie=f"recollect-{page.port}={quote(wrong)}")[0] == 401


@pytest.mark.parametrize("path", PATHS)
def test_other_names_of_this_machine_and_other_pages_are_refused(page: Page, path: str) -> None:
    for host in ("evil.example", f"evil.example:{page.port}", f"127.0.0.1.evil.example:{page.port}", "",
                 f"127.0.0.1:{page.port}@evil.example"):  # fmt: skip
        assert get(page, path, Host=host)[0] in (400, 403)
    for origin in ("http://evil.example", "null", f"http://127.0.0.1:{page.port + 1}", f"https://evil:{page.port}"):
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


def test_nothing_beside_the_runs_can_be_asked_for(page: Page, runs: Path, tmp_path: Path) -> None:
    (runs / "other" / "link.png").symlink_to(tmp_path / "secret.png")
    (runs / "other" / "curve.png").write_bytes(b"a curve")
    assert get(page, "/api/picture?run=other&file=curve.png")[2] == b"a curve"
    for run, file in (
        ("other", "../../secret.png"),
        ("other", "link.png"),
        ("other", "config.toml"),
        ("other", "/etc/passwd"),
        ("..", "secret.png"),
        ("../runs/other", "curve.png"),
        ("other/..", "curve.png"),
        ("other", "..%2f..%2fsecret.png"),
        ("", "curve.png"),
    ):
        status, _, data = get(page, f"/api/picture?{urlencode({'run': run, 'file': file})}")
        assert status == 404
        assert b"secret" not in data.replace(b"secret.png", b"")
    for path in ("/../secret.png", "/%2e%2e/secret.png", "/page/../app.py", "/app.py", "//etc/passwd", "/static/x.js"):
        assert get(page, path)[0] == 404
    for run in ("nothing", "../runs/other", "other/../other", "/" + str(runs / "other")):
        assert get(page, f"/api/run?{urlencode({'run': run})}")[0] == 404
        assert get(page, f"/api/memory?{urlencode({'memory': run})}")[0] == 404


def test_what_runs_say(page: Page) -> None:
    found = json.loads(get(page, "/api/overview")[2])
    about = {run["name"]: run for run in found["runs"]}
    assert set(about) == {"dqn/seed_1", "dqn/seed_2", "other", "killed"}
    assert found["memories"] == ["mine"]
    assert {name: run["status"] for name, run in about.items()} == {
        "dqn/seed_1": "done", "dqn/seed_2": "done", "other": "failed", "killed": "killed"}  # fmt: skip
    assert about["dqn/seed_1"]["kind"] == about["dqn/seed_2"]["kind"] != about["other"]["kind"]
    assert about["dqn/seed_2"]["returns"] == {"return": 102.0}
    run = json.loads(get(page, "/api/run?run=other")[2])
    assert run["settings"]["dqn.gamma"] == 0.5
    assert run["events"][0]["text"] == "actor 1 was lost"
    assert run["error"] == "ValueError: no"
    curve = json.loads(get(page, "/api/curve?run=other&metric=return")[2])
    assert curve["step"][-1] == 1000
    assert (curve["seconds"][-1], curve["cpu"][-1], curve["value"][-1]) == (10, 5, 101)
    assert json.loads(get(page, "/api/curve?run=other&metric=nothing")[2])["value"] == []


def test_long_curves_are_thinned_and_broken_lines_passed_over(page: Page, runs: Path) -> None:
    lines = [json.dumps({"step": step, "return": step}) for step in range(9_999)]
    lines[5000] = '{"step": 5000, "return": NaN}'
    (runs / "other" / "metrics.jsonl").write_text("\n".join(lines) + '\n[1]\nnot json\n{"step": 1')
    curve = json.loads(get(page, "/api/curve?run=other&metric=return")[2])
    assert len(curve["step"]) <= 2000
    assert curve["step"][-1] == 9_998
    (runs / "other" / "config.toml").write_text("no = [")
    names = {run["name"] for run in json.loads(get(page, "/api/overview")[2])["runs"]}
    assert names == {"dqn/seed_1", "dqn/seed_2", "killed"}


def test_memories_answer(page: Page) -> None:
    assert json.loads(get(page, "/api/memory?memory=mine")[2])["lanes"] == 2
    found = json.loads(get(page, "/api/memory?memory=mine&what=episodes&lane=1")[2])
    start = found["episodes"][1]["start"]
    assert json.loads(get(page, f"/api/memory?memory=mine&what=episode&lane=1&start={start}")[2])["return"] == 20
    status, headers, data = get(page, f"/api/memory?memory=mine&what=picture&field=camera&lane=1&serial={start}")
    assert (status, headers["content-type"], data[1:4]) == (200, "image/png", b"PNG")
    for query in ("what=row&lane=x", "what=row&lane=1e3&serial=0", "what=row&lane=1&serial=99999999999999999999"):
        assert get(page, f"/api/memory?memory=mine&{query}")[0] in (400, 404)
    for query in ("what=film&lane=0&start=0", "what=row", "what=__class__", "what=picture&field=obs&lane=0&serial=0"):
        assert get(page, f"/api/memory?memory=mine&{query}")[0] == 404


def test_a_memory_of_ones_own(tmp_path: Path) -> None:
    with rc.serve(small_memory(), name="loop") as page:
        assert json.loads(get(page, "/api/overview")[2]) == {"runs": [], "memories": ["loop"]}
        assert get(page, "/api/run?run=x")[0] in (200, 404)
    for options, message in (
        ({"port": -1}, "port must be from 0 to 65535, got -1"),
        ({"token": "short"}, "token must have at least 16 letters, got 5"),
    ):
        with pytest.raises(OptionError) as caught:
            rc.serve(small_memory(1), **options)
        assert str(caught.value) == message
    with pytest.raises(OptionError, match="memory must be a Memory, a Rollout or Shards, got list"):
        rc.serve([])  # type: ignore[arg-type]
    with Page(None, {}).start() as first, pytest.raises(OptionError, match="host and port must be free to listen on"):
        Page(None, {}, port=first.port)
    with pytest.raises(OptionError, match="folder must be a folder of runs"):
        Page(tmp_path / "none", {})


def test_checkpoints_are_looked_into(tmp_path: Path) -> None:
    from recollect import train
    from recollect.agents.dqn import DQNConfig

    how = {"eval_episodes": 2, "eval_every": 500, "video": False, "log": ()}
    train.run(DQNConfig(hidden=(8,)), "CartPole-v1", folder=tmp_path / "runs" / "a", steps=500, **how)
    write_run(tmp_path / "runs" / "b", 1)
    with Page(tmp_path / "runs", {}).start() as page:
        found = json.loads(get(page, "/api/memory?memory=a")[2])
        assert (found["source"], found["steps"] > 0) == ("checkpoint", True)
        assert get(page, "/api/memory?memory=b")[0] == 404
