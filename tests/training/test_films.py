"""Films of episodes of a run that goes on."""

import numpy as np
import pytest

from relive import Memory, envs
from relive.training.films import Films


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
