"""Memories and checkpoints, answered over HTTP."""

import json
from pathlib import Path

from asking import get
from made_runs import write_run

import relive
from relive.web.app import rest_after
from relive.web.start import Page


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


def test_checkpoints_are_looked_into(tmp_path: Path) -> None:
    from relive.agents.dqn import DQNConfig

    how = {"eval_episodes": 2, "eval_every": 500, "video": False, "log": ()}
    relive.train(DQNConfig(hidden=(8,)), "CartPole-v1", folder=tmp_path / "runs" / "a", steps=500, **how)
    write_run(tmp_path / "runs" / "b", 1)
    with Page(tmp_path / "runs", {}).start() as page:
        found = json.loads(get(page, "/api/memory?memory=a")[2])
        assert (found["source"], found["steps"] > 0) == ("checkpoint", True)
        assert get(page, "/api/memory?memory=b")[0] == 404


def test_one_slow_answer_does_not_silence_the_page() -> None:
    """A run that begins answers slowly once; its numbers came half a minute late after that."""
    assert [rest_after(seconds) for seconds in (0.0, 0.01, 0.02, 0.05, 0.3, 60.0)] == [0.0, 0.0, 1.0, 4.0, 5.0, 5.0]
