"""MADDPG: one update after another beside the same written plainly with autograd, agent by agent."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import recollect as rc
from recollect import envs
from recollect.agents.maddpg import MADDPG, MADDPGConfig
from recollect.learn import Stack


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def filled(
    name: str, steps: int = 40, num_envs: int = 4, n: int = 1, gamma: float = 0.95, **options: Any
) -> tuple[Any, Any]:
    env = envs.make(name, num_envs=num_envs, **options)
    memory = rc.Memory(env.schema, capacity=400 * num_envs, lanes=num_envs, window=rc.NStep(n, gamma=gamma), seed=0)
    random = np.random.default_rng(0)
    seen = env.reset(seed=0)
    for _ in range(steps):
        action = {}
        for group in env.groups:
            space = group.action_space
            if hasattr(space, "n"):
                chance = random.random((num_envs, len(group), int(space.n)))
                if group.avail:
                    chance *= seen[group.key("avail_actions")]
                action[group.key("action")] = chance.argmax(axis=2)
            else:
                action[group.key("action")] = random.random((num_envs, len(group), *space.shape), np.float32)
        step = env.step(action)
        memory.append(**step.row)
        seen = step.seen
    return env, memory


class Plain:
    """Every agent has a policy and critics of its own, moved by autograd and torch's Adam one after another."""

    def __init__(self, learner: MADDPG) -> None:
        self.config = learner.config
        self.random = torch.Generator()
        self.random.set_state(learner.random.get_state())
        self.agents: list[dict[str, Any]] = []
        for team in learner._teams:
            for index in range(len(team.group)):
                modules = {
                    name: _module(stack, index, self.config.activation) for name, stack in team._stacks().items()
                }
                self.agents.append({"team": team, "index": index, **modules})
        for agent in self.agents:
            agent["actor_adam"] = torch.optim.Adam(agent["actor"].parameters(), lr=self.config.actor_lr)
            agent["critic_adams"] = [
                torch.optim.Adam(agent[f"critic_{k}"].parameters(), lr=self.config.critic_lr)
                for k in range(len(agent["team"].critics))
            ]
        self.updates = 0

    def update(self, batch: Any) -> None:
        self.updates += 1
        config = self.config
        fields = [batch[a["team"].group.name] if a["team"].group.name else batch for a in self.agents]
        obs = [torch.tensor(f["obs"][:, a["index"]]) for f, a in zip(fields, self.agents, strict=True)]
        following = [torch.tensor(f["next_obs"][:, a["index"]]) for f, a in zip(fields, self.agents, strict=True)]
        codes = [
            a["team"]._head.encode(torch.tensor(f["action"][:, a["index"]]))
            for f, a in zip(fields, self.agents, strict=True)
        ]
        with torch.no_grad():
            next_codes = []
            for agent, seen in zip(self.agents, following, strict=True):
                head = agent["team"]._head
                next_codes.append(head.mode(agent["actor_target"](seen)))
        discount = torch.tensor(batch["discount"])
        for i, (agent, f) in enumerate(zip(self.agents, fields, strict=True)):
            reward = torch.tensor(f["reward"][:, agent["index"]])
            now, ahead = self._judged(i, obs, codes), self._judged(i, following, next_codes)
            with torch.no_grad():
                values = [agent[f"critic_{k}_target"](ahead)[:, 0] for k in range(len(agent["critic_adams"]))]
                wanted = reward + discount * torch.stack(values).min(dim=0).values
            for k, adam in enumerate(agent["critic_adams"]):
                loss = ((agent[f"critic_{k}"](now)[:, 0] - wanted) ** 2).mean()
                self._step(adam, loss, agent[f"critic_{k}"])
        if self.updates % config.delay:
            return
        drawn = []
        for team in dict.fromkeys(a["team"] for a in self.agents):  # a group's noise is drawn at once
            if team._head.draws:
                shape = (len(team.group), team._head.outputs, len(discount))
                drawn += list(-torch.log(torch.rand(shape, generator=self.random)).transpose(1, 2))
            else:
                drawn += [None] * len(team.group)
        for i, agent in enumerate(self.agents):
            head = agent["team"]._head
            outputs = agent["actor"](obs[i])
            if head.draws:
                soft = torch.softmax((outputs - torch.log(drawn[i])) / config.temperature, dim=-1)
                hard = nn.functional.one_hot(soft.argmax(dim=-1), head.outputs).float()
                own = hard + soft - soft.detach() if config.straight_through else soft
            else:
                own = torch.tanh(outputs)
            joint = self._judged(i, obs, [own if j == i else code for j, code in enumerate(codes)])
            loss = -agent["critic_0"](joint).mean() + config.logit_penalty * (outputs**2).mean()
            self._step(agent["actor_adam"], loss, agent["actor"])
        with torch.no_grad():
            for agent in self.agents:
                for name in ["actor", *(f"critic_{k}" for k in range(len(agent["critic_adams"])))]:
                    for target, source in zip(
                        agent[f"{name}_target"].parameters(), agent[name].parameters(), strict=True
                    ):
                        target.lerp_(source, config.tau)

    def _judged(self, i: int, obs: list[Any], codes: list[Any]) -> Any:
        own = self.agents[i]["team"]._own
        return torch.cat([obs[i], codes[i]], dim=1) if own else torch.cat([*obs, *codes], dim=1)

    def _step(self, adam: Any, loss: Any, module: nn.Module) -> None:
        for parameter in module.parameters():
            parameter.grad = None
        loss.backward(inputs=list(module.parameters()))
        if self.config.clip:
            nn.utils.clip_grad_norm_(module.parameters(), self.config.clip)
        adam.step()


def _module(stack: Stack, index: int, hidden: str) -> nn.Sequential:
    parts: list[nn.Module] = []
    for layer, (weight, bias) in enumerate(zip(stack.weights, stack.biases, strict=True)):
        linear = nn.Linear(*weight.shape[1:])
        linear.weight.data.copy_(weight[index].T)
        linear.bias.data.copy_(bias[index, 0])
        parts.append(linear)
        if layer < len(stack.weights) - 1:
            parts.append({"relu": nn.ReLU, "tanh": nn.Tanh, "leaky_relu": nn.LeakyReLU}[hidden]())
    return nn.Sequential(*parts)


CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("simple_spread", {}, {}),
    ("simple_spread", {"continuous_actions": True}, {}),
    ("simple_spread", {"N": 5}, {"activation": "tanh", "clip": 0.0, "hidden": (32,)}),
    ("simple_tag", {}, {"straight_through": False, "temperature": 0.5, "logit_penalty": 0.0}),
    ("simple_tag", {"continuous_actions": True}, {"ddpg": ("agent",), "activation": "leaky_relu"}),
    ("simple_tag", {}, {"ddpg": ("agent", "adversary")}),
    ("simple_world_comm", {}, {"init": "xavier"}),
    ("simple_crypto", {"continuous_actions": True}, {"twin": True, "delay": 2}),
    ("simple_speaker_listener", {}, {"twin": True}),
]


@pytest.mark.parametrize(("name", "options", "settings"), CASES)
def test_same_as_written_plainly(name: str, options: dict[str, Any], settings: dict[str, Any]) -> None:
    env, memory = filled(name, **options)
    learner = MADDPG(MADDPGConfig(**settings), env.groups, seed=1)
    plain = Plain(learner)
    for _ in range(6):
        batch = memory.sample(48)
        learner.update(batch)
        plain.update(batch)
    for agent in plain.agents:
        for key, stack in agent["team"]._stacks().items():
            wanted = torch.cat([torch.cat([p.T.flatten() if p.dim() == 2 else p]) for p in agent[key].parameters()])
            torch.testing.assert_close(
                stack.flat[agent["index"]], wanted.detach(), rtol=1e-5, atol=1e-5, msg=f"{name} {key}"
            )


def test_the_target_by_three_numbers() -> None:
    """Reward 2, gamma 0.9, and critics that say 10 of anything: going on 2 + 0.9 * 10 = 11, cut off 11 too, over 2."""
    env, memory = filled("simple_spread", steps=60, gamma=0.9, N=2, terminate_on_success=True, max_cycles=10)
    learner = MADDPG(MADDPGConfig(gamma=0.9), env.groups, seed=0)
    (team,) = learner._teams
    for stack in (*team.critics, *team.critic_targets):
        stack.flat.zero_()
        stack.biases[-1].fill_(10.0)
    batch = memory.sample(32)
    batch.reward[:] = 2.0
    for terminated, truncated, wanted in ((False, False, 11.0), (False, True, 11.0), (True, False, 2.0)):
        ended = copy.deepcopy(dict(batch))
        ended["discount"] = np.full(32, 0.0 if terminated else 0.9, np.float32)
        found: list[float] = []
        part = team.read(ended)
        joint = torch.zeros(32, sum(team.critics[0].sizes[:1]))
        before = team.critics[0].flat.clone()
        _, error = team.learn_values(part, joint, joint, torch.zeros(32, 10), torch.from_numpy(ended["discount"]), None)
        team.critics[0].flat.copy_(before)
        found = (10 - error * torch.sign(torch.tensor(10 - wanted))).tolist()
        assert np.allclose(found, wanted), (terminated, truncated)


def test_a_truncated_step_goes_on_from_what_was_seen() -> None:
    _, memory = filled("simple_spread", steps=60, gamma=0.9)
    batch = memory.sample(500)
    assert (batch.discount[batch.truncated] == np.float32(0.9)).all()
    assert batch.truncated.any()


def test_sharing_is_one_network() -> None:
    for name in ("simple_spread", "simple_tag"):
        for options in ({}, {"continuous_actions": True}):
            env, memory = filled(name, **options)
            learner = MADDPG(MADDPGConfig(share=("all",)), env.groups, seed=0)
            assert all(stack.count == 1 for team in learner._teams for stack in team._stacks().values())
            losses = [learner.update(memory.sample(64))[0] for _ in range(60)]
            if name == "simple_spread":
                assert np.mean([loss["critic_loss"] for loss in losses[-10:]]) < losses[0]["critic_loss"]
            action = learner.act(env.reset(seed=3), explore=True)
            env.step(action)


def test_shared_gradients_are_autograds() -> None:
    """The policy's slope through a shared critic, by autograd over the whole input."""
    env, memory = filled("simple_spread")
    learner = MADDPG(MADDPGConfig(share=("all",), clip=0.0, logit_penalty=0.0), env.groups, seed=0)
    (team,) = learner._teams
    batch = memory.sample(16)
    part = team.read(batch)
    joint = torch.cat([part.obs.flatten(1), part.codes.flatten(1)], dim=1)
    actor, critic = _module(team.actor, 0, "relu"), _module(team.critics[0], 0, "relu")
    state = learner.random.get_state()
    team.learn_policy(part, joint, learner.random)
    random = torch.Generator()
    random.set_state(state)
    chance = -torch.log(torch.rand(3, 5, 16, generator=random)).transpose(1, 2)
    loss = torch.zeros(())
    for i in range(3):
        tag = torch.eye(3)[i].expand(16, 3)
        soft = torch.softmax(actor(torch.cat([tag, part.obs[:, i]], dim=1)) - torch.log(chance[i]), dim=-1)
        own = nn.functional.one_hot(soft.argmax(dim=-1), 5).float() + soft - soft.detach()
        codes = [own if j == i else part.codes[:, j] for j in range(3)]
        loss = loss - critic(torch.cat([tag, part.obs.flatten(1), *codes], dim=1)).mean()
    loss.backward()
    layers = [layer for layer in actor if isinstance(layer, nn.Linear)]
    wanted = torch.cat([torch.cat([layer.weight.grad.T.flatten(), layer.bias.grad]) for layer in layers])
    torch.testing.assert_close(team.actor.grad[0], wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["simple_tag", "marines_3v3"])
@pytest.mark.parametrize(
    "settings", [{}, {"noise": "ou", "twin": True, "smoothing": 0.1}, {"epsilon": 0.3, "embed": True}]
)
def test_a_state_goes_on_bit_for_bit(name: str, settings: dict[str, Any]) -> None:
    options = {"continuous_actions": True} if "noise" in settings and name == "simple_tag" else {}
    env, memory = filled(name, **options)
    one = MADDPG(MADDPGConfig(**settings), env.groups, seed=0)
    seen = env.reset(seed=0)
    for _ in range(5):
        one.act(seen, explore=True)
        one.update(memory.sample(32))
    two = MADDPG(MADDPGConfig(**settings), env.groups, seed=9)
    two.load(one.state())
    for _ in range(5):
        batch = memory.sample(32)
        for key, value in one.act(seen, explore=True).items():
            np.testing.assert_array_equal(two.act(seen, explore=True)[key], value)
            break
        two.load(one.state())
        one.update(batch), two.update(batch)
    for key, value in one.state().items():
        assert torch.equal(two.state()[key], value), key


def test_the_same_seed_gives_the_same_parameters() -> None:
    found = []
    for _ in range(2):
        env, memory = filled("simple_spread")
        learner = MADDPG(MADDPGConfig(), env.groups, seed=5)
        for _ in range(50):
            learner.update(memory.sample(64))
        found.append(learner.state())
    assert all(torch.equal(value, found[1][key]) for key, value in found[0].items())


def test_only_what_may_be_done_is_done() -> None:
    env = envs.make("marines_3v3", num_envs=16)
    learner = MADDPG(MADDPGConfig(epsilon=0.2), env.groups, seed=0)
    seen = env.reset(seed=0)
    for step in range(80):
        seen = env.step(learner.act(seen, explore=step % 2 == 0)).seen


def test_evaluation_is_the_mode() -> None:
    env = envs.make("simple_tag", num_envs=8, continuous_actions=True)
    learner = MADDPG(MADDPGConfig(), env.groups, seed=0)
    seen = env.reset(seed=0)
    one, two = learner.act(seen, explore=False), learner.act(seen, explore=False)
    noisy = learner.act(seen, explore=True)
    for key, value in one.items():
        np.testing.assert_array_equal(value, two[key])
        assert (value != noisy[key]).any()
        assert value.min() >= 0
        assert noisy[key].max() <= 1


def test_weights_of_priorities_count() -> None:
    env, memory = filled("simple_spread")
    batch = memory.sample(32)
    flats = []
    for weights in (np.ones(32, np.float32), np.zeros(32, np.float32)):
        learner = MADDPG(MADDPGConfig(), env.groups, seed=0)
        before = learner._teams[0].critics[0].flat.clone()
        _, errors = learner.update({**batch, "weights": weights})
        flats.append(learner._teams[0].critics[0].flat - before)
        assert errors.shape == (32,)
        assert (errors > 0).all()
    assert flats[0].abs().max() > 0
    assert flats[1].abs().max() == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"gamma": 1.5}, "gamma must be in its range, got 1.5"),
        ({"hidden": ()}, "hidden must be units of at least one layer, got ()"),
        ({"ddpg": ("prey",)}, "group must be one of adversary, agent, or all, got 'prey'"),
    ],
)
def test_refusals(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(rc.errors.OptionError) as caught:
        MADDPG(MADDPGConfig(**settings), envs.make("simple_tag").groups, seed=0)
    assert str(caught.value) == message
