"""What the page says of runs."""

import json
from pathlib import Path
from urllib.parse import urlencode

from asking import get

from relive.web.start import Page


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
