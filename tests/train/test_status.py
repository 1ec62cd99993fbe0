"""How a run says that it stands, and what can be seen of it while it goes."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from recollect import Memory, envs, train
from recollect.agents.dqn import DQNConfig
from recollect.agents.maddpg import MADDPGConfig
from recollect.agents.ppo import PPOConfig
from recollect.agents.qmix import QMIXConfig
from recollect.live import ask, published
from recollect.train.films import Films
from recollect.train.status import read_status, recorded

SMALL = MADDPGConfig(hidden=(16,), batch_size=64, learning_starts=500, capacity=20_000, update_every=50)
HOW = {"num_envs": 8, "eval_episodes": 5, "eval_every": 100_000, "video": False, "log": ()}


def test_going_done_stopped_and_failed(tmp_path: Path) -> None:
    with recorded(tmp_path) as status:
        assert read_status(tmp_path).state == "going"
        status.state = "done"
    assert read_status(tmp_path).state == "done"
    with pytest.raises(ValueError, match="no"), recorded(tmp_path):
        raise ValueError("no")
    assert read_status(tmp_path).state == "failed"
    assert read_status(tmp_path).error == "ValueError: no"
    done = train.run(SMALL, "simple_spread", folder=tmp_path / "a", steps=1_000, **HOW)
    assert read_status(done.folder).state == "done"

    class Stop:
        def on_step(self, run) -> None:
            if run.steps > 500:
                run.stop()

    stopped = train.run(SMALL, "simple_spread", folder=tmp_path / "b", steps=1_000, callbacks=[Stop()], **HOW)
    assert read_status(stopped.folder).state == "stopped"
    train.resume(stopped.folder)
    assert read_status(stopped.folder).state == "done"


def test_a_run_that_was_killed_is_known_by_its_process(tmp_path: Path) -> None:
    code = "import sys,time; from pathlib import Path; from recollect.train.status import recorded\n"
    code += "with recorded(Path(sys.argv[1])): print('there', flush=True); time.sleep(60)"
    child = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"there\n"
    assert read_status(tmp_path).state == "going"
    os.kill(child.pid, signal.SIGKILL)
    late = time.monotonic() + 10
    while read_status(tmp_path).state == "going" and time.monotonic() < late:
        time.sleep(0.05)
    assert read_status(tmp_path).state == "killed"  # also while nobody has waited for it
    child.wait()
    child.stdout.close()
    about = json.loads((tmp_path / "status.json").read_text())
    (tmp_path / "status.json").write_text(json.dumps({**about, "pid": os.getpid()}))  # a number that was given again
    assert read_status(tmp_path).state == "killed"
    (tmp_path / "status.json").write_text(json.dumps({**about, "host": "elsewhere"}))
    assert read_status(tmp_path).state == "going"
    for broken in ("{", "[]", '{"state": 3}', json.dumps({**about, "pid": "x"})):
        (tmp_path / "status.json").write_text(broken)
        assert read_status(tmp_path).state in ("stopped", "killed")


@pytest.mark.parametrize(
    ("algorithm", "env", "actors"),
    [
        (SMALL, "simple_spread", 0),
        (SMALL, "simple_spread", 2),
        (QMIXConfig(hidden=16, batch_size=4, buffer_size=100), "marines_3v3", 0),
        (DQNConfig(hidden=(16,), learning_starts=200), "CartPole-v1", 0),
        (PPOConfig(hidden=(16,)), "CartPole-v1", 0),
    ],
)
def test_a_run_is_looked_at_while_it_goes(tmp_path: Path, algorithm, env: str, actors: int) -> None:
    """And what is drawn again is what was done: its returns are those that are held."""
    folder, answers = tmp_path / "run", []
    films = env != "CartPole-v1" and not actors  # where the world is here, and can tell how it stands

    class Looker:
        """Looks from another thread, and ends the run when it has seen enough."""

        def __init__(self) -> None:
            self.thread = None

        def on_step(self, run) -> None:
            if self.thread is None:
                self.thread = threading.Thread(target=self.look)
                self.thread.start()
            if not self.thread.is_alive():
                run.stop()

        def look(self) -> None:
            late = time.monotonic() + 30
            while time.monotonic() < late:
                answers.append(ask(folder, {"what": "summary"}))
                found = ask(folder, {"what": "episodes"})
                ended = [each for each in found["episodes"] if each["terminated"] or each["truncated"]]
                filmed = [each for each in ended if each["film"]]
                if filmed or (ended and not films):
                    one = (filmed or ended)[0]
                    asked = {"lane": one["lane"], "start": one["start"]}
                    answers.append({"episode": ask(folder, {"what": "episode", **asked})})
                    if filmed:
                        answers.append({"film": ask(folder, {"what": "film", **asked})})
                    return
                time.sleep(0.05)

    looker = Looker()
    train.run(algorithm, env, folder=folder, steps=10_000_000, callbacks=[looker], actors=actors, **HOW)
    assert published(folder) is None
    assert all(answer is not None and "error" not in answer for answer in answers)
    assert answers[0]["steps"] >= 0
    episode = next(answer["episode"] for answer in answers if "episode" in answer)
    assert "error" not in episode
    if films:
        assert len(answers[-1]["film"]["gif"]) > 1000


class Plain:
    """As much of an algorithm as environments ask for."""

    name, single_agent = "plain", False


@pytest.mark.parametrize(("env", "options"), [("simple_spread", {}), ("simple_tag", {}), ("marines_3v3", {}),
                                              ("battle", {"map_size": 12, "max_episode_steps": 30})])  # fmt: skip
def test_films_replay_what_was_done(env: str, options: dict) -> None:
    """A world restored from a part of a snapshot, given the actions that are held, earns the rewards that are held."""
    world = envs.make(env, num_envs=5, **options)
    memory = Memory(world.schema, 5 * 2000, 5)
    films, rng = Films(Plain(), env, options), np.random.default_rng(0)
    obs = world.reset(seed=0)
    for _ in range(300):
        action = {}
        for group in world.groups:
            likes = rng.random((5, len(group), group.action_space.n))
            action[group.key("action")] = (likes * obs.get(group.key("avail_actions"), 1)).argmax(-1)
        step = world.step(action)
        memory.append(**step.row)
        obs = step.obs
        if step.ended.any():
            films.note(world, step.ended, memory)
    episodes, shown = memory.episodes, 0
    for lane, start, ended in zip(episodes.lane, episodes.start, episodes.terminated | episodes.truncated, strict=True):
        if not ended or (int(lane), int(start)) not in films.there():
            continue
        shown += 1
        again = films.replay(memory, int(lane), int(start))
        rows = [again.env.step(action).row for action in again.actions]
        slots = (start + np.arange(len(rows))) % 2000
        for key in [key for key in rows[0] if key.split("/")[-1] == "reward"]:
            values = np.concatenate([row[key] for row in rows])
            np.testing.assert_allclose(values, memory[key][lane, slots], rtol=1e-6)
    assert shown > 1
    assert films.draw(memory, *films.there()[0])[:3] == b"GIF"
    assert films.draw(memory, 0, 1) is None
