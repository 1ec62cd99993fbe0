"""Policies and critics of a group: whose encoder reads what, and in which order critics read everybody."""

from __future__ import annotations

import pytest
import torch
from gymnasium import spaces
from torch import nn

from refusals import refused
from relive.errors import OptionError
from relive.learn.networks import Copies
from relive.learn.policies import Critic, Encoders, Policy, network_maker

WIDE, NARROW = spaces.Box(-1, 1, (3,)), spaces.Box(-1, 1, (2,))


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_an_encoder_that_learns_is_made_for_every_network() -> None:
    encoders = Encoders(3, WIDE, lambda _: nn.Linear(3, 4))
    obs = torch.randn(3, 5, 3, generator=seeded())
    found = encoders(obs)
    for agent in range(3):
        torch.testing.assert_close(found[agent], encoders.networks[agent](obs[agent]))
    everyone = encoders.everyone(obs)
    assert everyone.shape == (3, 5, 12)
    for which in range(3):
        for agent in range(3):
            wanted = encoders.networks[which](obs[agent])
            torch.testing.assert_close(everyone[which, :, 4 * agent : 4 * agent + 4], wanted)


def test_observations_that_are_features_are_laid_side_by_side() -> None:
    encoders = Encoders(3, WIDE, None)
    obs = torch.randn(3, 5, 3, generator=seeded())
    assert len(encoders.networks) == 1
    assert encoders(obs) is obs
    torch.testing.assert_close(encoders.everyone(obs), torch.cat(list(obs), dim=1))


@pytest.mark.parametrize("shared", [False, True])
def test_policies(shared: bool) -> None:
    policy = Policy(2, WIDE, 4, network_maker(None, (5,), generator=seeded()), shared=shared)
    obs = torch.randn(2, 6, 3, generator=seeded())
    found = policy(obs)
    assert found.shape == (2, 6, 4)
    other = obs.clone()
    other[1] += 1
    assert torch.equal(policy(other)[0], found[0])
    swapped = policy(obs.flip(0)).flip(0)
    assert not torch.allclose(swapped, found)  # networks of their own, or told apart by who they are


def linear_critic(**how: bool) -> Critic:
    """Two agents whose critics are linear, beside a group of one."""
    torch.manual_seed(0)
    make = network_maker(nn.Linear, ())
    spaces_read = [(2, WIDE)] if how.get("own") else [(2, WIDE), (1, NARROW)]
    return Critic(2, spaces_read, 4 if how.get("own") else 10, make, **how)


def test_critics_read_all_observations_then_all_actions() -> None:
    """Group by group and agent by agent; and each with its own agent's action in place of what was done."""
    critic, random = linear_critic(), seeded()
    obs = [torch.randn(2, 6, 3, generator=random), torch.randn(1, 6, 2, generator=random)]
    action = [torch.randn(6, 8, generator=random), torch.randn(6, 2, generator=random)]
    networks = critic.per_agent.networks
    assert isinstance(networks, Copies)
    read = torch.cat([obs[0][0], obs[0][1], obs[1][0], *action], dim=1)
    q = critic(obs, action)
    for agent, network in enumerate(networks.networks):
        torch.testing.assert_close(q[agent], network(read)[:, 0])
    mine = torch.randn(2, 6, 4, generator=random)
    q = critic(obs, action, own=(0, mine))
    for agent, network in enumerate(networks.networks):
        changed = read.clone()
        changed[:, 8 + 4 * agent : 12 + 4 * agent] = mine[agent]
        torch.testing.assert_close(q[agent], network(changed)[:, 0])


def test_critics_that_read_their_own_agent_only() -> None:
    critic, random = linear_critic(own=True), seeded()
    obs, action = torch.randn(2, 6, 3, generator=random), torch.randn(2, 6, 4, generator=random)
    q = critic([obs], [action])
    for agent, network in enumerate(critic.per_agent.networks.networks):
        torch.testing.assert_close(q[agent], network(torch.cat([obs[agent], action[agent]], dim=1))[:, 0])
    torch.testing.assert_close(critic([obs], [torch.zeros(2, 6, 4)], own=(0, action)), q)


def test_networks_of_ones_own_cannot_be_split() -> None:
    with refused(OptionError, "split_critic_input", got="True"):
        network_maker(nn.Linear, ())(2, 5, 1, 3)
