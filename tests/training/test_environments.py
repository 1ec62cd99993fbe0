"""Environments as an algorithm sees them."""

from __future__ import annotations

import pytest

from relive.agents.registry import find
from relive.training.environments import make_drawable_env, make_env


@pytest.mark.parametrize(("name", "shape"), [("dqn", (3, 4)), ("qmix", (3, 1, 4))])
def test_algorithms_of_one_agent_see_no_axis_of_agents(name: str, shape: tuple[int, ...]) -> None:
    env = make_env(find(name), "gymnasium:CartPole-v1", 3, {})
    assert env.reset(seed=0)["obs"].shape == shape
    env.close()


def test_one_that_can_be_drawn_with_its_options() -> None:
    env = make_drawable_env(find("qmix"), "simple_spread", {"N": 2})
    assert env.num_envs == 1
    assert env.reset(seed=0)["obs"].shape[:2] == (1, 2)
    assert env.render(0).ndim == 3
    env.close()
