"""QMIX, VDN and IQL against the same written plainly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from qmix_plain import Plain, flats
from qmix_world import SMALL, filled

from relive import envs
from relive.agents.qmix import QMIXConfig
from relive.learn import greedy
from relive.learn.sequences import pack_sequences
from relive.tensors import to_torch

CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("marines_3v3", {"td_lambda": 0}, {}),
    ("marines_3v3", {"mixer": "vdn"}, {}),
    ("marines_3v3", {"mixer": "qplex"}, {}),
    ("simple_spread", {"mixer": "qplex", "double_q": False, "recurrent": False, "tau": 0.1}, {"max_cycles": 7}),
    ("simple_speaker_listener", {"mixer": "qplex", "parameter_sharing": False, "td_lambda": 0}, {"max_cycles": 5}),
    ("marines_3v3", {"mixer": "none", "parameter_sharing": False, "double_q": False, "td_lambda": 0}, {}),
    (
        "marines_3v3",
        {
            "recurrent": False,
            "optimizer": "rmsprop",
            "hypernet_units": 0,
            "max_grad_norm": 0.01,
            "lr_end": 0.1,
            "lr_episodes": 3,
        },
        {},
    ),
    ("marines_3v3", {"parameter_sharing": False, "n_step": 3, "per_alpha": 0.6}, {"max_episode_steps": 9}),
    ("marines_2v3", {"mixer": "none", "td_lambda": 0.5, "agent_id": False}, {"max_episode_steps": 9}),
    ("marines_3v3", {"mixer": "none", "n_step": 4, "per_alpha": 1.0}, {}),
    (
        "marines_2v2",
        {"update_every": 2, "target_update_interval": 4, "learning_starts": 3, "clip_targets": False},
        {"max_episode_steps": 9},
    ),
    (
        "marines_2v2",
        {"update_every": 0.4, "target_update_interval": 1, "td_lambda": 0, "lr_end": 0.3, "lr_episodes": 2},
        {"max_episode_steps": 9},
    ),
    ("simple_spread", {"reward": "mean", "last_action": False, "tau": 0.1}, {"max_cycles": 7}),
    (
        "simple_spread",
        {"mixer": "none", "reward": "own", "n_step": 2},
        {"max_cycles": 7, "state": True},
    ),
    ("simple_spread", {"standardize_reward": True, "target_update_interval": 2}, {"max_cycles": 7, "state": True}),
    ("simple_spread", {"bootstrap_on_truncation": False, "td_lambda": 0.7}, {"max_cycles": 7}),
    ("simple_speaker_listener", {"epsilon_end": 1.0, "bootstrap_on_truncation": False}, {"max_cycles": 5}),
    ("simple_adversary", {"mixer": "none", "parameter_sharing": False}, {"max_cycles": 5}),
    ("simple_adversary", {"mixer": "none", "reward": "own", "standardize_reward": True}, {"max_cycles": 5}),
    ("pettingzoo:leaving_world", {"mixer": "none", "reward": "own", "standardize_reward": True, "gamma": 0.3}, {}),
    ("pettingzoo:leaving_world", {"mixer": "none", "reward": "own", "n_step": 3}, {}),
    ("pettingzoo:leaving_world", {"mixer": "none", "reward": "mean", "parameter_sharing": False}, {}),
    ("pettingzoo:leaving_world", {"mixer": "vdn", "standardize_reward": True, "gamma": 0.0}, {}),
]


SOME = [case if at % 2 == 0 else pytest.param(*case, marks=pytest.mark.slow) for at, case in enumerate(CASES)]


@pytest.mark.parametrize(("name", "changes", "options"), SOME)
def test_updates_are_a_plain_loops(name: str, changes: dict[str, Any], options: dict[str, Any]) -> None:
    config = QMIXConfig(**{**SMALL, **changes})
    env, memory, learner = filled(name, config, **options)
    plain = Plain(learner, env)
    if config.per_alpha:
        batch = memory.sample(40)
        memory.update_priorities(batch, 0.01 + np.arange(40))
        assert len(set(memory.sample(40)["weights"].tolist())) > 3
    for _ in range(4):
        batch = memory.sample(4)
        metrics, errors = learner.update(batch)
        loss, wanted = plain.update(batch)
        assert float(metrics["loss"]) == pytest.approx(loss, rel=1e-5)
        np.testing.assert_allclose(errors, wanted, rtol=1e-5, atol=1e-5)
    for networks, others in ((learner.online, plain.nets), (learner.target, plain.targets)):
        for key, flat in flats(networks).items():
            torch.testing.assert_close(
                flat, others[key], rtol=1e-5, atol=1e-5, msg=lambda text, key=key: f"{key} {text}"
            )


def test_what_may_not_be_done_is_neither_done_nor_hoped_for() -> None:
    """An action whose value is far above all others, and which is never available."""
    config = QMIXConfig(**SMALL, mixer="vdn", epsilon_start=0.3, epsilon_end=0.3)
    env, memory, learner = filled("marines_3v3", config)
    q = learner.online["agents"]
    for networks in (learner.online, learner.target):
        flat = networks["agents"].networks.flat
        flat.data[:, -q.choices :] = torch.arange(q.choices) * 100.0
    for explore in (True, False):
        actor, obs = learner.actor(4, explore=explore), env.reset(seed=1)
        for _ in range(40):
            action = actor.act(obs, 0)[0]["action"]
            assert np.take_along_axis(obs["avail_actions"], action[..., None], 2).all()
            step = env.step(action)
            actor.reset(step.ended)
            obs = step.obs
    batch = memory.sample(8)
    packed = pack_sequences(batch["lengths"])
    own = q.read(to_torch(batch), batch, packed)
    ahead = own.q_of(learner.target["agents"](own), greedy(q(own), own.action_mask)).detach()
    best = torch.from_numpy(batch["avail_actions"][packed.obs]).float() * torch.arange(q.choices)
    there = torch.from_numpy(batch["agent_mask"][packed.obs])
    assert ((ahead - best.max(dim=2).values * 100).abs() < 20)[there].all()
    assert (ahead[~there] == 0).all()


def alone(batch: Any, episode: int) -> dict[str, Any]:
    """One episode of a packed batch of one group."""
    length = int(batch["lengths"][episode])
    step = int(batch["lengths"][:episode].sum())
    seen = step + episode
    observed = ("obs", "avail_actions", "agent_mask", "state")
    one = {key: batch[key][seen : seen + length + 1] for key in observed if key in batch}
    one |= {key: batch[key][step : step + length] for key in ("action", "reward", "terminated", "truncated")}
    return one | {key: batch[key][episode : episode + 1] for key in ("lengths", "weights")}


@pytest.mark.parametrize("share", [True, False])
def test_episodes_alone_and_together_give_the_same(share: bool) -> None:
    """Losses and gradients of a batch are the means of its episodes' own, by their steps: nothing is padded."""
    config = QMIXConfig(**{**SMALL, "max_grad_norm": 0.0}, parameter_sharing=share)
    _, memory, learner = filled("marines_3v3", config)
    batch = memory.sample(6)
    assert len(set(batch["lengths"].tolist())) > 2
    state = learner.state_dict()

    def gradients(some: Any) -> tuple[float, dict[str, torch.Tensor]]:
        learner.load_state_dict(state)
        loss = float(learner.update(some)[0]["loss"])
        return loss, {name: flat.grad.clone() for name, flat in flats(learner.online).items()}

    loss, together = gradients(batch)
    own = [gradients(alone(batch, episode)) for episode in range(6)]
    parts = batch["lengths"] / batch["lengths"].sum()
    assert loss == pytest.approx(sum(part * one for part, (one, _) in zip(parts, own, strict=True)), rel=1e-5)
    for name, grad in together.items():
        wanted = sum(float(part) * each[name] for part, (_, each) in zip(parts, own, strict=True))
        torch.testing.assert_close(grad, wanted, rtol=1e-3, atol=1e-5)


def test_nobody_is_there() -> None:
    config = QMIXConfig(**SMALL)
    _, memory, learner = filled("marines_3v3", config)
    batch = memory.sample(4)
    metrics, _ = learner.update({**batch, "agent_mask": np.zeros_like(batch["agent_mask"])})
    assert torch.isfinite(metrics["loss"])


@pytest.mark.parametrize(("name", "changes", "options"), SOME)
def test_a_state_goes_on_bit_for_bit(name: str, changes: dict[str, Any], options: dict[str, Any]) -> None:
    config = QMIXConfig(**{**SMALL, **changes})
    env, memory, one = filled(name, config, **options)
    two = config.learner(env, seed=7)
    actors = [learner.actor(4, explore=True, seed=seed) for seed, learner in enumerate((one, two))]
    obs = env.reset(seed=3)
    for t in range(30):
        if t == 15:
            two.load_state_dict(one.state_dict())
            actors[1].load_state_dict(actors[0].state_dict())
            actors[1].load(two.weights())
        actions = [actor.act(obs, 20_000)[0] for actor in actors]
        step = env.step(actions[0])
        batch = memory.sample(4)
        for learner, actor in zip((one, two), actors, strict=True):
            actor.reset(step.ended)
            learner.update(batch)
            actor.load(learner.weights())
        if t >= 15:
            for key, value in actions[0].items():
                np.testing.assert_array_equal(value, actions[1][key])
        obs = step.obs
    state = two.state_dict()
    for key, value in one.state_dict().items():
        assert torch.equal(state[key], value), key


def test_the_same_seed_gives_the_same_parameters() -> None:
    found = []
    for _ in range(2):
        _, memory, learner = filled("marines_3v3", QMIXConfig(**SMALL))
        for _ in range(50):
            learner.update(memory.sample(4))
        found.append(learner.state_dict())
    assert all(torch.equal(value, found[1][key]) for key, value in found[0].items())


@given(st.lists(st.integers(1, 9), min_size=2, max_size=5), st.integers(1, 12))
def test_the_newest_episodes_are_kept_whole(periods: list[int], wanted: int) -> None:
    """Lanes whose episodes are of different lengths; what is kept, beside a list of all that has ended."""
    config = QMIXConfig(**{**SMALL, "buffer_size": wanted, "batch_size": 1})
    env = envs.make("simple", num_envs=len(periods), max_cycles=9)
    memory, ended = config.memory(env, lanes=env.num_envs, seed=0), []
    for t in range(60):
        over = np.array([t % period == period - 1 for period in periods])
        obs, none = np.full((len(periods), 1, 4), t, np.float32), np.zeros(len(periods), bool)
        acted = {"action": np.zeros((len(periods), 1), int), "reward": np.zeros((len(periods), 1))}
        memory.append(obs=obs, **acted, terminated=over, truncated=none, final_obs=obs)
        ended += [(t, lane, periods[lane]) for lane in np.flatnonzero(over)]
        kept = memory.episodes
        done = kept.terminated & kept.whole
        assert done.sum() == memory.ready == min(len(ended), wanted)
        oldest = min(time for time, _, _ in ended[-wanted:]) if ended else 0
        found = sorted(zip(kept.lane[done].tolist(), kept.length[done].tolist(), strict=True))
        surely = [(lane, length) for time, lane, length in ended if time > oldest]
        assert all(found.count(each) >= surely.count(each) for each in surely)
        running = ~kept.terminated
        assert (kept.length[running] == [(t + 1) % periods[lane] for lane in kept.lane[running]]).all()


def test_the_oldest_episodes_are_forgotten() -> None:
    config = QMIXConfig(**{**SMALL, "buffer_size": 20})
    env = envs.make("simple_spread", num_envs=4, max_cycles=3)
    memory, learner = config.memory(env, lanes=env.num_envs, seed=0), config.learner(env)
    actor, obs, done = learner.actor(4, explore=True), env.reset(seed=0), 0
    for _ in range(60):
        step = env.step(actor.act(obs)[0])
        memory.append(**step.row)
        done += int(step.ended.sum())
        obs = step.obs
    kept = memory.episodes
    assert done == 80
    assert len(kept.start) == 20
    assert kept.id.min() >= 15
    assert memory.ready == 20
