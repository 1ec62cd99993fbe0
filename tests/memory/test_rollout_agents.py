"""Rollouts of agents who come and go, and returns of other kinds: against their definitions, one agent at a time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relive as rl
from refusals import refused

GAMMA, LAM = 0.9, 0.7
SCHEMA = rl.Schema(obs=rl.Field((2,)), agent_mask=rl.Field((2,), "bool"), value=rl.Field((2,)), reward=rl.Field((2,)))


def value_of(obs):
    return np.asarray(obs) * 0.1


def definition(rows, at, agent, *, n=None):
    """The return of a step by its definition: rows have reward, value, next value, next mask and ends."""
    total, weight = 0.0, 1.0
    for count, row in enumerate(rows[at:], 1):
        over = row["terminated"] or not row["next_mask"][agent]
        after = 0.0 if over else row["next_value"][agent]
        if n is None:
            total += weight * (row["reward"][agent] + GAMMA * after - row["value"][agent])
            weight *= GAMMA * LAM
        else:
            total += weight * row["reward"][agent]
            weight *= GAMMA
            last = over or row["truncated"] or count == n or at + count == len(rows)
            if last:
                return total + weight * after
        if over or row["truncated"]:
            break
    return total + rows[at]["value"][agent]


steps = st.lists(
    st.tuples(
        st.lists(st.sampled_from([0, 0, 0, 1, 2]), min_size=2, max_size=2),
        st.lists(st.booleans(), min_size=4, max_size=4),
        st.lists(st.integers(-3, 3), min_size=4, max_size=4),
    ),
    min_size=1,
    max_size=10,
)


@settings(max_examples=120, deadline=None)
@given(steps, st.sampled_from([None, 1, 3]), st.booleans())
def test_a_return_ends_where_an_agent_leaves(some, n, normalize):
    rollout = rl.Rollout(SCHEMA, 10, 2, seed=0)
    obs, mask = np.arange(4.0).reshape(2, 2), np.ones((2, 2), bool)
    lanes = [[], []]
    for ends, alive, rewards in some:
        terminated, truncated = np.array(ends) == 1, np.array(ends) == 2
        reward, after = np.array(rewards, float).reshape(2, 2), obs + 1
        stay = mask & np.array(alive).reshape(2, 2)
        shown = {"obs": obs, "agent_mask": mask, "value": value_of(obs), "reward": reward}
        final = {"final_obs": after, "final_agent_mask": stay}
        rollout.append(**shown, terminated=terminated, truncated=truncated, **final)
        for lane in range(2):
            each = {key: np.array(value[lane], float) for key, value in shown.items()}
            each |= {"terminated": terminated[lane], "truncated": truncated[lane]}
            each |= {"next_value": value_of(after[lane]), "next_mask": stay[lane]}
            lanes[lane].append(each)
        ended = (terminated | truncated)[:, None]
        obs, mask = np.where(ended, after + 50, after), np.where(ended, True, stay)
    ahead = rollout.bootstrap(obs=obs, agent_mask=mask)
    rollout.finish(value_of(ahead.obs), gamma=GAMMA, lam=LAM, n_step=n, normalize=normalize)
    wanted, counted = [], []
    for rows in lanes:
        for at, row in enumerate(rows):
            for agent in range(2):
                there = bool(row["agent_mask"][agent])
                wanted.append(definition(rows, at, agent, n=n) if there else 0.0)
                counted.append(there)
    np.testing.assert_allclose(rollout["returns"].ravel(), wanted, atol=1e-4)
    advantage = (np.array(wanted) - rollout["value"].ravel()) * counted
    if normalize and any(counted):
        chosen = advantage[counted]
        advantage = np.where(counted, (advantage - chosen.mean()) / max(chosen.std(), 1e-8), 0)
        if chosen.std() < 1e-3:
            return
    np.testing.assert_allclose(rollout["advantage"].ravel(), advantage, atol=1e-3)


def test_a_teams_return_goes_on():
    """With one reward for all, what is earned after an agent's death is still its own."""
    schema = rl.Schema(obs=rl.Field((2,)), agent_mask=rl.Field((2,), "bool"), value=rl.Field((2,)), reward=rl.Field())
    rollout = rl.Rollout(schema, 3, 1, seed=0)
    for alive, ended in (([True, True], False), ([True, False], False), ([True, False], True)):
        rollout.append(
            obs=[[0.0, 0.0]],
            agent_mask=[alive],
            value=[[0.0, 0.0]],
            reward=[1.0],
            terminated=[ended],
            truncated=[False],
            final_obs=[[0.0, 0.0]],
            final_agent_mask=[alive],
        )
    ahead = rollout.bootstrap(obs=[[0.0, 0.0]], agent_mask=[[True, True]])
    rollout.finish(0 * ahead.obs, gamma=1.0, lam=1.0)
    assert rollout["returns"].tolist() == [[3, 3], [2, 2], [1, 1]]
    rollout.finish(0 * ahead.obs, gamma=1.0, lam=1.0, reward=lambda _name, reward: 2 * reward)
    assert rollout["returns"][0].tolist() == [6, 6]


def test_values_of_ones_own_and_no_bootstrap_at_truncation():
    rollout = rl.Rollout(rl.Schema(obs=rl.Field()), 2, 1, seed=0)
    rollout.append(obs=[1.0], reward=[1.0], terminated=[False], truncated=[True], final_obs=[5.0])
    rollout.append(obs=[2.0], reward=[1.0], terminated=[False], truncated=[False])
    assert rollout.rows().obs.tolist() == [1.0, 2.0]
    assert rollout.before_bootstrap().obs.tolist() == [2.0, 1.0]  # what the lane's newest step saw, then truncated ones
    ahead = rollout.bootstrap(obs=[3.0])
    assert ahead.obs.tolist() == [3.0, 5.0]
    for bootstrap, returns in ((True, [1 + 50, 1 + 30]), (False, [1, 1 + 30])):
        rollout.finish(
            {"value": 10 * ahead.obs},
            value={"value": np.zeros(2, np.float32)},
            gamma=1.0,
            bootstrap_on_truncation=bootstrap,
        )
        assert rollout["returns"].tolist() == returns
    with pytest.raises(KeyError, match="key must be one of obs, reward, advantage, returns, got 'value'"):
        rollout["value"]
    with refused(rl.errors.OptionError, "schema"):
        rollout.finish(0 * ahead.obs)


def test_lanes_without_a_step_come_before_nothing():
    rollout = rl.Rollout(rl.Schema(obs=rl.Field(), value=rl.Field()), 2, 2, seed=0)
    rollout.append(lanes=[1], obs=[7.0], value=[3.0], reward=[1.0], terminated=[False], truncated=[False])
    assert rollout.before_bootstrap().obs.tolist() == [0.0, 7.0]


def test_who_is_there_has_to_be_known():
    rollout = rl.Rollout(SCHEMA, 2, 1, seed=0)
    row = {"obs": [[0.0, 0.0]], "agent_mask": [[True, True]], "value": [[0.0, 0.0]], "reward": [[1.0, 1.0]]}
    rollout.append(**row, terminated=[False], truncated=[False])
    with refused(rl.errors.OptionError, "rollout", got="nothing"):
        rollout.finish(np.zeros((1, 2)))
