"""MFQ against the same written plainly, mean actions by hand, and MFAC on top of policy gradients."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from coma_plain import _copies, _perceptron

from refusals import refused
from relive import envs
from relive.agents.interface import Learner
from relive.agents.mfq import MFQ, MFQConfig
from relive.agents.registry import find
from relive.errors import OptionError

SMALL: dict[str, Any] = {"hidden": (6,), "batch_size": 6, "capacity": 200, "lr": 1e-2, "encoder": "flat"}


BATTLE: dict[str, Any] = {"map_size": 15, "max_episode_steps": 9, "positions": True}


def closer(env: Any) -> None:
    """Teams that stand among each other, some of whom are nearly dead."""
    if env.name == "battle":
        field = env.field
        field.pos[:, field.team :, 0] = field.pos[:, : field.team, 0] + 1
        field.pos[:, field.team :, 1] = field.pos[:, : field.team, 1]
        field.hit_points[:] = 1.0
        env._seen = env.look()


def filled(name: str, settings: dict[str, Any], steps: int = 25, **options: Any) -> tuple[Any, Any, MFQ]:
    """An environment, a memory of some play, and a learner."""
    config = MFQConfig(**{**SMALL, **settings})
    env = envs.make(name, num_envs=2, **options)
    memory, learner = config.memory(env, lanes=2, seed=0), config.learner(env, seed=1)
    actor, obs, random = learner.actor(2, explore=True, seed=2), env.reset(seed=0), np.random.default_rng(0)
    for _ in range(steps):
        action, extras = actor.act(obs)
        if name == "battle":  # now and then they strike those who stand to the east
            struck = random.random(action["red/action"].shape) < 0.1
            action["red/action"] = np.where(struck, 17, action["red/action"])
        step = env.step(action)
        memory.append(**step.row, **extras)
        actor.reset(step.ended)
        if step.ended.any():
            closer(env)
            obs = dict(env._seen) if name == "battle" else step.obs
        else:
            obs = step.obs
    return env, memory, learner


class PlainMFQ:
    """MFQ, one row and one agent after the other."""

    def __init__(self, learner: MFQ, env: Any) -> None:
        self.config, self.env, self.groups, self.learner = learner.config, env, env.groups, learner
        self.online = [_copies(q.networks.networks.flat) for q in learner.online]
        self.targets = [[flat.detach().clone() for flat in flats] for flats in self.online]
        self.optimizers = [torch.optim.Adam(flats, self.config.lr) for flats in self.online]
        self.updates = 0

    def q(self, flats: Any, g: int, agent: int, obs: Any, mean: torch.Tensor) -> torch.Tensor:
        """Q of every action of an agent."""
        config, count = self.config, len(self.groups[g])
        scale = 255 if obs.dtype == np.uint8 else 1
        parts = [torch.tensor(obs.astype(np.float32)).flatten() / scale]
        parts += [mean] if config.neighbours != "none" else []
        parts += [torch.eye(count)[agent]] if config.agent_id and config.parameter_sharing and count > 1 else []
        x = torch.cat(parts)
        flat = flats[0 if config.parameter_sharing else agent]
        return _perceptron(flat, [len(x), *config.hidden, int(self.groups[g].action_space.n)], x)

    def next_mean(self, g: int, fields: Any, row: int, agent: int) -> torch.Tensor:
        """What an agent's neighbours did on average, as it is seen after the step."""
        group = self.groups[g]
        done = []
        for other in range(len(group)):
            if other == agent or (group.mask and not fields["next_agent_mask"][row, other]):
                continue
            if self.config.neighbours == "radius":
                away = fields["next_position"][row, other] - fields["next_position"][row, agent]
                if np.sqrt((away**2).sum()) > self.config.radius:
                    continue
            done.append(torch.eye(int(group.action_space.n))[int(fields["action"][row, other])])
        return sum(done) / len(done) if done else torch.zeros(int(group.action_space.n))  # type: ignore[return-value]

    def update(self, batch: Any) -> None:
        """One update."""
        config = self.config
        self.updates += 1
        done = config.learning_starts + self.updates * config.update_every
        share = min(done / config.temperature_steps, 1)
        heat = config.temperature_start + (config.temperature_end - config.temperature_start) * share
        for g, group in enumerate(self.groups):
            fields = batch[group.name] if group.name else batch
            losses = []
            for row in range(len(batch["discount"])):
                for agent in range(len(group)):
                    if group.mask and not self.env.shared_reward and not fields["agent_mask"][row, agent]:
                        continue
                    with torch.no_grad():
                        mean = self.next_mean(g, fields, row, agent)
                        next_q = self.q(self.targets[g], g, agent, fields["next_obs"][row, agent], mean)
                        logits = next_q / heat
                        if group.avail:
                            mask = torch.tensor(fields["next_avail_actions"][row, agent])
                            logits = logits.masked_fill(~mask, -1e9)
                        value = float((torch.softmax(logits, 0) * next_q).sum())
                        if group.mask and not self.env.shared_reward and not fields["next_agent_mask"][row, agent]:
                            value = 0.0
                    reward = batch["reward"][row] if self.env.shared_reward else fields["reward"][row, agent]
                    target = float(reward) + float(batch["discount"][row]) * value
                    seen = torch.tensor(fields["mean_action"][row, agent]) if config.neighbours != "none" else mean
                    q = self.q(self.online[g], g, agent, fields["obs"][row, agent], seen)
                    error = target - q[int(fields["action"][row, agent])]
                    losses.append(torch.nn.functional.huber_loss(error, torch.zeros(()), reduction="none"))
            self.optimizers[g].zero_grad()
            (sum(losses) / len(losses)).backward()  # type: ignore[union-attr]
            for flat in self.online[g]:
                torch.nn.utils.clip_grad_norm_([flat], config.max_grad_norm)
            self.optimizers[g].step()
            for flat, target_flat in zip(self.online[g], self.targets[g], strict=True):
                target_flat.mul_(1 - config.tau).add_(flat.detach() * config.tau)


CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("battle", {}, BATTLE),
    ("battle", {"neighbours": "radius", "radius": 3.0, "temperature_steps": 20, "learning_starts": 3}, BATTLE),
    ("battle", {"neighbours": "none", "max_grad_norm": 0.01}, BATTLE),
    ("simple_spread", {"agent_id": True}, {"max_cycles": 4}),
    ("simple_spread", {"neighbours": "none", "n_step": 2}, {"max_cycles": 4}),
    ("simple_tag", {"parameter_sharing": False}, {"max_cycles": 4}),
    ("marines_3v3", {}, {"max_episode_steps": 9}),
]


@pytest.mark.parametrize(("name", "settings", "options"), CASES)
def test_updates_are_a_plain_loops(name: str, settings: dict[str, Any], options: dict[str, Any]) -> None:
    env, memory, learner = filled(name, settings, **options)
    plain = PlainMFQ(learner, env)
    if name == "battle":
        masks = memory.sample(60).red
        assert (masks.agent_mask & ~masks.next_agent_mask).any()  # somebody died
    for _ in range(3):
        batch = memory.sample(6)
        learner.update(batch)
        plain.update(batch)
    for ours, theirs in ((learner.online, plain.online), (learner.targets, plain.targets)):
        for module, flats in zip(ours, theirs, strict=True):
            torch.testing.assert_close(module.networks.networks.flat, torch.stack(flats), rtol=1e-5, atol=1e-5)


def test_rows_hold_what_neighbours_did_before() -> None:
    """The mean action of a row is of the actions of the row before it; zeros where an episode begins."""
    env = envs.make("simple_spread", num_envs=2, max_cycles=4)
    learner = MFQConfig(**SMALL).learner(env, seed=1)
    actor, obs, done = learner.actor(2, explore=True), env.reset(seed=0), np.zeros((2, 3, 5))
    for t in range(12):
        action, extras = actor.act(obs)
        for agent in range(3):
            others = [done[:, other] for other in range(3) if other != agent]
            np.testing.assert_allclose(extras["mean_action"][:, agent], np.mean(others, axis=0))
        assert extras["mean_action"].any() == (t % 4 > 0)
        step = env.step(action)
        actor.reset(step.ended)
        done = np.eye(5)[action["action"]] * ~step.ended[:, None, None]
        obs = step.obs


def test_temperature_falls() -> None:
    learner = MFQConfig(temperature_start=2.0, temperature_end=0.5, temperature_steps=100).learner(
        envs.make("simple_spread")
    )
    assert [learner.temperature(step) for step in (0, 50, 100, 999)] == [2.0, 1.25, 0.5, 0.5]
    q = torch.tensor([[[1.0, 2.0, 3.0, 0.0, 0.0]]])
    policy = learner.online[0].policy(q, {}, 0.5)
    torch.testing.assert_close(policy.log_probs.exp(), torch.softmax(q / 0.5, -1))


@pytest.mark.parametrize(("name", "settings", "options"), CASES)
def test_a_state_goes_on_bit_for_bit(name: str, settings: dict[str, Any], options: dict[str, Any]) -> None:
    env, memory, one = filled(name, settings, **options)
    one.update(memory.sample(6))
    two = one.config.learner(env, seed=7)
    two.load_state_dict(one.state_dict())
    for _ in range(3):
        batch = memory.sample(6)
        for learner in (one, two):
            learner.update(batch)
    state = two.state_dict()
    for key, value in one.state_dict().items():
        assert torch.equal(state[key], value), key


def test_the_same_seed_gives_the_same_parameters() -> None:
    found = []
    for _ in range(2):
        _, memory, learner = filled("simple_spread", {"per_alpha": 0.6})
        for _ in range(50):
            learner.learn(memory)
        found.append(learner.state_dict())
    assert all(torch.equal(value, found[1][key]) for key, value in found[0].items())


def test_elsewhere() -> None:
    """On "meta", where whoever asks for a number or mixes devices is refused."""
    env, memory, learner = filled("battle", {"neighbours": "radius"}, **BATTLE)
    metrics, _ = learner.config.learner(env, device="meta").update(memory.sample(4))
    assert all(value.device.type == "meta" for value in metrics.values())


def test_refusals() -> None:
    env = envs.make("battle", map_size=15)
    with refused(OptionError, "neighbours"):
        MFQConfig(neighbours="radius").learner(env)
    continuous = envs.make("simple_spread", continuous_actions=True)
    with refused(OptionError, "action space"):
        MFQConfig().learner(continuous)
    with refused(OptionError, "action space"):
        MFQConfig(neighbours="none").learner(continuous)
    with refused(OptionError, "n_step", got="3"):
        MFQConfig(n_step=3)
    with refused(OptionError, "temperature_end", got="0"):
        MFQConfig(temperature_end=0)


def test_what_learners_are() -> None:
    learner: Learner = MFQConfig(encoder="flat").learner(envs.make("battle", map_size=15))
    assert set(learner.agent_modules()) == {"red", "blue"}  # type: ignore[attr-defined]


def test_the_presets_are_what_xuance_has() -> None:
    found = MFQConfig(**MFQConfig().presets["xuance"])
    assert (found.gamma, found.batch_size, found.lr, found.learning_starts) == (0.95, 256, 1e-3, 1_000)
    mfac = replace(find("mfac"), **find("mfac").presets["xuance"])
    assert mfac.name == "mfac"
    assert (mfac.gamma, mfac.epochs, mfac.clip, mfac.actor_lr, mfac.rollout) == (0.99, 10, 0.2, 7e-4, 200)
