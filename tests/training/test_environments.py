"""Environments as an algorithm sees them."""

from __future__ import annotations

import pytest

from relive.agents.registry import find
from relive.errors import ReliveError
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


@pytest.mark.parametrize("env", ["simple_spread", "gymnasium:CartPole-v1", "marines_4v4", "pettingzoo:mpe2.simple_v3"])
@pytest.mark.parametrize("option", ["name", "num_envs", "self", "id", "env", "options", "algorithm"])
def test_options_with_names_of_our_arguments_are_refused_as_options(env: str, option: str) -> None:
    """An option called ``name`` once was a TypeError of ours."""
    with pytest.raises(ReliveError):
        make_env(find("maddpg"), env, 1, {option: 3})
