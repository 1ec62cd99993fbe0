"""MADDPG written plainly: agent by agent, with autograd and torch's Adam."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from relive import envs
from relive.agents.maddpg import MADDPG, MADDPGConfig
from relive.learn import StackedMLP

EPS = 1e-5
"""Adam's. With less, the step of a gradient that is nearly nothing is made of its rounding."""


def filled(
    name: str, steps: int = 40, num_envs: int = 4, config: MADDPGConfig | None = None, **options: Any
) -> tuple[Any, Any]:
    """An environment, and a memory of chance actions in it; which of an ensemble acted is chance too."""
    config = config or MADDPGConfig()
    env = envs.make(name, num_envs=num_envs, **options)
    memory = config.memory(env, lanes=env.num_envs, seed=0)
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
        cast = {
            group.key("ensemble_index"): random.integers(config.ensemble, size=(num_envs, len(group)))
            for group in env.groups
            if config.ensemble > 1
        }
        memory.append(**step.row, **cast)
        seen = step.obs
    return env, memory


class Plain:
    """Every agent has policies and critics of its own, moved one after another."""

    def __init__(self, learner: MADDPG) -> None:
        self.config = learner.config
        self.random = torch.Generator()
        self.random.set_state(learner.networks.generator.get_state())
        self.agents: list[dict[str, Any]] = []
        for optimizer in learner.networks.optimizers.values():
            for options in optimizer.param_groups:
                options["eps"] = EPS
        for team in learner.groups:
            for index in range(len(team.spec)):
                agent: dict[str, Any] = {"team": team, "index": index}
                for name, stack in stacks(team).items():
                    members = self.config.ensemble if name.startswith("actor") else 1
                    made = [self._module(stack, index * members + k) for k in range(members)]
                    agent[name] = made if name.startswith("actor") else made[0]
                self.agents.append(agent)
        for agent in self.agents:
            agent["actor_adams"] = [
                torch.optim.Adam(a.parameters(), lr=self.config.actor_lr, eps=EPS) for a in agent["actor"]
            ]
            agent["critic_adams"] = [
                torch.optim.Adam(agent[f"critic_{k}"].parameters(), lr=self.config.critic_lr, eps=EPS)
                for k in range(len(agent["team"].critics))
            ]
            if agent["team"].inferred is not None:
                self._add_guesses(agent)
        self.updates = 0

    def _add_guesses(self, agent: dict[str, Any]) -> None:
        """What this agent thinks of everyone but itself."""
        guesses, agent["guesses"] = agent["team"].inferred, {}
        teams = list(dict.fromkeys(a["team"] for a in self.agents))
        for j, other in enumerate(self.agents):
            if other is agent:
                continue
            which = teams.index(other["team"])
            place = agent["index"] * len(other["team"].spec) + other["index"]
            pair = [each[which].per_agent.networks for each in (guesses.policies, guesses.targets)]
            guess, target = (self._module(stack, place) for stack in pair)
            adam = torch.optim.Adam(guess.parameters(), lr=self.config.actor_lr, eps=EPS)
            agent["guesses"][j] = (guess, target, adam, *pair, place)

    def _module(self, stack: StackedMLP, index: int) -> nn.Sequential:
        return as_module(stack, index, self.config.activation)

    def update(self, batch: Any) -> None:
        """One update of everyone."""
        self.updates += 1
        config = self.config
        done = min(self.updates * config.update_every / config.lr_steps, 1.0)
        self.pace = 1.0 + (config.lr_end - 1.0) * done
        fields = [batch[a["team"].spec.name] if a["team"].spec.name else batch for a in self.agents]
        pairs = list(zip(fields, self.agents, strict=True))
        obs = [torch.tensor(f["obs"][:, a["index"]]) for f, a in pairs]
        following = [torch.tensor(f["next_obs"][:, a["index"]]) for f, a in pairs]
        codes = [a["team"].head.normalize(torch.tensor(f["action"][:, a["index"]])) for f, a in pairs]
        rows = len(batch["discount"])
        members = [
            torch.tensor(f["ensemble_index"][:, a["index"]].astype(int))
            if config.ensemble > 1
            else torch.zeros(rows, dtype=int)
            for f, a in pairs
        ]
        self.present, self.next_present = (
            [torch.tensor(f[n][:, a["index"]]).float() if a["team"].spec.mask else torch.ones(rows) for f, a in pairs]
            for n in ("agent_mask", "next_agent_mask")
        )
        self.allowed, self.next_allowed = (
            [torch.tensor(f[n][:, a["index"]]) if a["team"].spec.avail else None for f, a in pairs]
            for n in ("avail_actions", "next_avail_actions")
        )
        with torch.no_grad():
            next_codes = []
            for i, (agent, seen, member) in enumerate(zip(self.agents, following, members, strict=True)):
                outputs = torch.stack([agent["actor_target"][k](seen[b]) for b, k in enumerate(member.tolist())])
                next_codes.append(self._mode(i, outputs))
        discount = torch.tensor(batch["discount"])
        for i, (agent, f) in enumerate(zip(self.agents, fields, strict=True)):
            ahead_codes = next_codes
            if "guesses" in agent:
                ahead_codes = self._guess(i, obs, codes, following, next_codes)
            reward = torch.tensor(
                f["reward"][:, agent["index"]] if "reward" in f and f["reward"].ndim == 2 else batch["reward"]
            )
            now, ahead = self._judged(i, obs, codes), self._judged(i, following, ahead_codes)
            with torch.no_grad():
                values = [agent[f"critic_{k}_target"](ahead)[:, 0] for k in range(len(agent["critic_adams"]))]
                wanted = reward + discount * torch.stack(values).min(dim=0).values * self.next_present[i]
            for k, adam in enumerate(agent["critic_adams"]):
                loss = (self.present[i] * (agent[f"critic_{k}"](now)[:, 0] - wanted) ** 2).mean()
                self._step(adam, loss, agent[f"critic_{k}"], first_mask(agent["team"].critics[k], agent["index"]))
        if self.updates % config.policy_delay:
            return
        drawn = []
        for team in dict.fromkeys(a["team"] for a in self.agents):  # a group's noise is drawn at once
            if team.head.stochastic:
                shape = (len(team.spec), team.head.outputs, rows)
                drawn += list(-torch.log(torch.rand(shape, generator=self.random)).transpose(1, 2))
            else:
                drawn += [None] * len(team.spec)
        for i, agent in enumerate(self.agents):
            for k, actor in enumerate(agent["actor"]):
                self._climb(i, obs, codes, drawn[i], actor, agent["actor_adams"][k], members[i] == k)
        with torch.no_grad():
            for agent in self.agents:
                pairs = [(agent[f"critic_{k}_target"], agent[f"critic_{k}"]) for k in range(len(agent["critic_adams"]))]
                pairs += list(zip(agent["actor_target"], agent["actor"], strict=True))
                pairs += [(target, guess) for guess, target, *_ in agent.get("guesses", {}).values()]
                for target, source in pairs:
                    for mine, other in zip(target.parameters(), source.parameters(), strict=True):
                        mine.lerp_(other, config.tau)

    def _guess(
        self, i: int, obs: list[Any], codes: list[Any], following: list[Any], next_codes: list[Any]
    ) -> list[Any]:
        """A step of the agent's guesses, and what it thinks that everyone does next."""
        thought = list(next_codes)
        for j, (guess, target, adam, *_) in self.agents[i]["guesses"].items():
            head = self.agents[j]["team"].head
            outputs = self._free(j, guess(obs[j]))
            if head.stochastic:
                chances = torch.distributions.Categorical(logits=outputs)
                loss = -chances.log_prob(codes[j].argmax(dim=1)) - self.config.infer_entropy * chances.entropy()
            else:
                loss = ((torch.tanh(outputs) - codes[j]) ** 2).sum(dim=1) / 2
            self._step(adam, (self.present[j] * loss).mean(), guess)
            with torch.no_grad():
                thought[j] = self._mode(j, target(following[j]))
        return thought

    def _climb(
        self, i: int, obs: list[Any], codes: list[Any], noise: Any, actor: nn.Module, adam: Any, mine: Any
    ) -> None:
        """A step of one policy, over the rows that it played."""
        agent, config = self.agents[i], self.config
        head = agent["team"].head
        raw = actor(obs[i])
        outputs = self._free(i, raw)
        if head.stochastic:
            soft = torch.softmax((outputs - torch.log(noise)) / config.temperature, dim=-1)
            hard = nn.functional.one_hot(soft.argmax(dim=-1), head.outputs).float()
            own = hard + soft - soft.detach() if config.straight_through and not config.simplex_actions else soft
        else:
            own = torch.tanh(outputs)
        joint = self._judged(i, obs, [own if j == i else code for j, code in enumerate(codes)])
        counted = raw if self.allowed[i] is None else raw * self.allowed[i]
        each = -agent["critic_0"](joint)[:, 0] + config.logit_penalty * (counted**2).mean(dim=1)
        self._step(adam, (each * mine * self.present[i]).sum() / len(mine), actor)

    def _free(self, i: int, outputs: Any) -> Any:
        """Outputs without those of actions that cannot be taken."""
        return outputs if self.allowed[i] is None else outputs.masked_fill(~self.allowed[i], -1e9)

    def _mode(self, i: int, outputs: Any) -> Any:
        """What is done a step later by outputs."""
        allowed = None if self.next_allowed[i] is None else self.next_allowed[i][None]
        return self.agents[i]["team"].head.distribution(outputs[None], allowed).mode()[0]

    def _judged(self, i: int, obs: list[Any], codes: list[Any]) -> Any:
        own = self.agents[i]["team"].own
        return torch.cat([obs[i], codes[i]], dim=1) if own else torch.cat([*obs, *codes], dim=1)

    def _step(self, adam: Any, loss: Any, module: Any, apart: Any = None) -> None:
        for parameter in module.parameters():
            parameter.grad = None
        loss.backward(inputs=list(module.parameters()))
        if apart is not None:
            module[0].weight.grad *= apart.T
        if self.config.max_grad_norm:
            nn.utils.clip_grad_norm_(module.parameters(), self.config.max_grad_norm)
        rates = [group["lr"] for group in adam.param_groups]
        for group in adam.param_groups:
            group["lr"] *= self.pace
        adam.step()
        for group, rate in zip(adam.param_groups, rates, strict=True):
            group["lr"] = rate

    def pairs(self) -> Any:
        """A name, a row of a stack, and the module that it should equal, for all networks."""
        for agent in self.agents:
            for name, stack in stacks(agent["team"]).items():
                modules = agent[name] if name.startswith("actor") else [agent[name]]
                for k, module in enumerate(modules):
                    yield name, stack.flat[agent["index"] * len(modules) + k], _flat(module)
            for guess, target, _, stack, targets, place in agent.get("guesses", {}).values():
                yield "guess", stack.flat[place], _flat(guess)
                yield "guess target", targets.flat[place], _flat(target)


def stacks(group: Any) -> dict[str, StackedMLP]:
    """The networks of a group by name."""
    found = {"actor": group.policy, "actor_target": group.policy_target}
    for index, (critic, target) in enumerate(zip(group.critics, group.critic_targets, strict=True)):
        found |= {f"critic_{index}": critic, f"critic_{index}_target": target}
    return {name: network.per_agent.networks for name, network in found.items()}


def first_mask(critic: Any, index: int) -> Any:
    """Which inputs reach which units of an agent's first layer, if not all do."""
    stack = critic.per_agent.networks
    return None if stack.mask is None else stack.shape.layers(stack.mask)[0][0][index]


def _flat(module: nn.Module) -> Any:
    return torch.cat([p.detach().T.flatten() if p.dim() == 2 else p.detach() for p in module.parameters()])


def as_module(stack: StackedMLP, index: int, hidden: str) -> nn.Sequential:
    """One network of a stack."""
    parts: list[nn.Module] = []
    layers = stack.shape.layers(stack.flat.detach())
    for layer, (weight, bias) in enumerate(layers):
        linear = nn.Linear(*weight.shape[1:])
        linear.weight.data.copy_(weight[index].T)
        linear.bias.data.copy_(bias[index, 0])
        parts.append(linear)
        if layer < len(layers) - 1:
            parts.append({"relu": nn.ReLU, "tanh": nn.Tanh, "leaky_relu": nn.LeakyReLU}[hidden]())
    return nn.Sequential(*parts)
