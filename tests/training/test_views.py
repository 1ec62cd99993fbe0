"""What others see of a run while it goes."""

import threading
import time
from pathlib import Path

import pytest

import relive
from relive.agents.dqn import DQNConfig
from relive.agents.maddpg import MADDPGConfig
from relive.agents.ppo import PPOConfig
from relive.agents.qmix import QMIXConfig
from relive.live import ask, published
from waiting import PATIENCE

SMALL = MADDPGConfig(hidden=(16,), batch_size=64, learning_starts=500, capacity=20_000, update_every=50)


HOW = {"num_envs": 8, "eval_episodes": 5, "eval_every": 100_000, "video": False, "log": ()}


@pytest.mark.parametrize(
    ("algorithm", "env", "actors"),
    [
        (SMALL, "simple_spread", 0),
        pytest.param(SMALL, "simple_spread", 2, marks=pytest.mark.slow),
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
            late = time.monotonic() + PATIENCE
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
    relive.train(algorithm, env, folder=folder, steps=10_000_000, callbacks=[looker], actors=actors, **HOW)
    assert published(folder) is None
    assert all(answer is not None and "error" not in answer for answer in answers)
    assert answers[0]["steps"] >= 0
    episode = next(answer["episode"] for answer in answers if "episode" in answer)
    assert "error" not in episode
    if films:
        assert len(answers[-1]["film"]["gif"]) > 1000
