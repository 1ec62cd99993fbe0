"""What the page says of runs."""

import json
import os
import shutil
from pathlib import Path
from urllib.parse import urlencode

import pytest
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
    status = {run["name"]: run["status"] for run in json.loads(get(page, "/api/overview")[2])["runs"]}
    assert status == {"dqn/seed_1": "done", "dqn/seed_2": "done", "other": "unreadable", "killed": "killed"}


def deep(levels: int) -> str:
    return '{"a":' * levels + "1" + "}" * levels


METRICS, CONFIG, STATUS = "metrics.jsonl", "config.toml", "status.json"
BAD = {
    "numbers": (METRICS, '{"step": NaN, "return": Infinity, "x": 1e999, "y": 1' + "0" * 400 + "}\n"),
    "no numbers": (METRICS, '{"step": "many", "return": [1], "time/steps_per_second": {}}\n'),
    "surrogates": (METRICS, '{"step": 1, "\\ud800": 1, "\\ud800/return": 2}\n'),
    "deep metrics": (METRICS, deep(100_000) + "\n"),
    "a long line": (METRICS, "[" * 3_000_000),
    "dates": (CONFIG, "when = 2026-01-01T00:00:00Z\nnan = nan\nbig = 99999999999999999999\n"),
    "deep settings": (CONFIG, f"x = {'{a = ' * 90}1{'}' * 90}\n"),
    "very deep settings": (CONFIG, f"x = {'[' * 50_000}"),
    "other settings": (CONFIG, "env = 1\nalgorithm = [2]\nrun = 3\n"),
    "no settings": (CONFIG, ""),
    "status": (STATUS, '{"state": "\\ud800", "error": 1, "began": 1e999, "ended": NaN}'),
    "deep status": (STATUS, deep(100_000)),
    "events": ("events.jsonl", '{"time": NaN, "what": "\\udfff", "x": [[[]]]}\n' + deep(100_000) + "\n"),
    "live": ("live.json", deep(100_000)),
}
"""Texts of files; those of settings that have no algorithm are added to what is there."""


def break_run(run: Path, bad: str) -> None:
    if bad in BAD:
        name, text = BAD[bad]
        added = name == CONFIG and text and "algorithm" not in text
        (run / name).write_text((run / name).read_text() + text if added else text)
    elif bad == "bytes":
        (run / CONFIG).write_bytes(b"\xff\xfe")
    elif bad == "pipes":
        for name in (METRICS, STATUS, "events.jsonl"):
            (run / name).unlink()
            os.mkfifo(run / name)
    elif bad == "device":
        (run / METRICS).unlink()
        (run / METRICS).symlink_to("/dev/zero")
    else:
        run.rename(os.fsdecode(os.fsencode(run.parent) + b"/\xff\xfe"))


@pytest.mark.parametrize("bad", [*BAD, "bytes", "pipes", "device", "name"])
def test_one_bad_run_leaves_the_others_as_they_are(page: Page, runs: Path, bad: str) -> None:
    before = {run["name"]: run for run in json.loads(get(page, "/api/overview")[2])["runs"]}
    break_run(runs / "other", bad)
    status, _, data = get(page, "/api/overview")
    assert status == 200
    after = {run["name"]: run for run in json.loads(data, parse_constant=pytest.fail)["runs"]}
    assert len(after) == 4
    assert all(after[name] == before[name] for name in before if name != "other")
    (other,) = set(after) - set(before) or {"other"}
    for path in (
        f"/api/run?{urlencode({'run': other})}",
        f"/api/curve?{urlencode({'run': other, 'metric': 'return'})}",
    ):
        status, _, data = get(page, path)
        assert status in (200, 404)
        json.loads(data, parse_constant=pytest.fail)
    assert get(page, "/events")[0] == 200


def test_metrics_are_read_as_they_come_and_forgotten_with_their_run(page: Page, runs: Path) -> None:
    path = runs / "other" / "metrics.jsonl"

    def values() -> list[float]:
        return list(json.loads(get(page, "/api/curve?run=other&metric=x")[2]).get("value", []))

    path.write_text('{"step": 1, "x": 1}\n{"step": 2, "x"')
    assert values() == [1]
    with path.open("a") as file:
        file.write(': 2}\n{"step": 3, "y": 1}\n{"step": 4, "x": 4}\n')
    assert values() == [1, 2, 4]
    path.unlink()
    path.write_text('{"step": 1, "x": 7}\n')
    assert values() == [7]
    shutil.rmtree(runs / "other")
    assert len(json.loads(get(page, "/api/overview")[2])["runs"]) == 3
    assert values() == []
