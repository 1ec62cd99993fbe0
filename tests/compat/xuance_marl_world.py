"""Environments for the tests of XuanCe's memories for many agents."""

from __future__ import annotations

from typing import Any

import numpy as np

from relive.compat.xuance.v1_1 import memory_tools_marl as xm

A, OBS, ACT, STATE, DIM = 3, (4,), (), (5,), 6
GAMMA, LAM = 0.9, 0.8


class Normalizer:
    """Values are kept as (value - 2) / 3."""

    def denormalize(self, values: Any) -> Any:
        return values * 3 + 2


class World:
    """Steps of many agents whose numbers say where they came from."""

    def __init__(self, n_envs: int, seed: int = 0, *, limits: bool = True) -> None:
        self.n_envs, self.random, self.t, self.limits = n_envs, np.random.default_rng(seed), 0, limits

    def step(self) -> dict[str, Any]:
        self.t += 1
        lead = (self.n_envs, A)
        ended = self.random.random(self.n_envs) < 0.15
        return {
            "obs": self.random.normal(size=(*lead, *OBS)).astype(np.float32),
            "obs_next": self.random.normal(size=(*lead, *OBS)).astype(np.float32),
            "actions": self.random.integers(0, DIM, lead).astype(np.float32),
            "actions_onehot": np.eye(DIM, dtype=np.float32)[self.random.integers(0, DIM, lead)],
            "act_mean": self.random.random((self.n_envs, DIM)).astype(np.float32),
            "rewards": self.random.normal(size=(*lead, 1)).astype(np.float32),
            "values": self.random.normal(size=(*lead, 1)).astype(np.float32),
            "log_pi_old": self.random.normal(size=lead).astype(np.float32),
            "terminals": np.repeat(ended[:, None], A, axis=1) | (self.random.random(lead) < 0.05),
            "truncations": (self.random.random(self.n_envs) < 0.1) & self.limits,
            "agent_mask": self.random.random(lead) < 0.8,
            "state": self.random.normal(size=(self.n_envs, *STATE)).astype(np.float32),
            "state_next": self.random.normal(size=(self.n_envs, *STATE)).astype(np.float32),
        }


def plain_targets(path: list[dict[str, Any]], last: Any, kind: str) -> tuple[list[Any], list[Any]]:
    """Returns and advantages of a path ``[T][A]``, backwards from the definitions."""
    returns: list[Any] = [None] * len(path)
    advantages: list[Any] = [None] * len(path)
    after_value, after_gae, after_return = last, np.zeros(A), last
    for t in reversed(range(len(path))):
        reward, value = path[t]["rewards"][:, 0].astype(float), path[t]["value"].astype(float)
        going = 1.0 - path[t]["terminals"]
        if kind == "gae":
            after_gae = reward + going * GAMMA * after_value - value + going * GAMMA * LAM * after_gae
            advantages[t], returns[t] = after_gae, after_gae + value
        elif kind == "sums":
            after_return = reward + going * GAMMA * after_return
            returns[t], advantages[t] = after_return, after_return - value
        else:
            after_return = reward + going * GAMMA * ((1 - LAM) * after_value + LAM * after_return)
            returns[t], advantages[t] = after_return, np.zeros(A)
        after_value = value
    return returns, advantages


def make(cls: Any, n_envs: int = 2, size: int = 24, *, use_gae: bool = True, state: Any = STATE, **more: Any) -> Any:
    extra = {"dim_act": DIM, "td_lambda": LAM, "prob_space": (DIM,), "max_episode_length": 7} | more
    rew = (1,) if "RNN" in cls.__name__ else (A, 1)
    return cls(A, state, OBS, ACT, rew, (A,), n_envs, size, use_gae, True, GAMMA, LAM, **extra)


def episodes_world(buffer: Any, world: World, rounds: int) -> list[dict[str, Any]]:
    """Plays rounds in which every environment plays one episode, and says what should have been stored, in order."""
    n_envs, longest = buffer.n_envs, buffer.max_eps_len
    stored = []
    for _ in range(rounds):
        lengths = world.random.integers(1, longest + 1, n_envs)
        steps: list[list[dict[str, Any]]] = [[] for _ in range(n_envs)]
        filled = np.zeros((n_envs, longest, 1), bool)
        finished: dict[int, dict[str, Any]] = {}
        for t in range(int(lengths.max())):
            step = world.step()
            step["terminals"][:] = False
            step["terminals"][lengths == t + 1] = world.random.random() < 0.5
            step["avail_actions"] = world.random.random((n_envs, A, DIM)) < 0.7
            actions = {"actions_n": step["actions"], "values": step["values"], "log_pi": step["log_pi_old"]}
            actions["act_n_onehot"] = step["actions_onehot"]
            times = np.minimum(np.full(n_envs, t), longest - 1)
            filled[lengths > t, t] = True
            state = step["state"] if buffer.state_space is not None else None
            data = (step["obs"], actions, state, step["rewards"], step["terminals"], step["avail_actions"])
            buffer.store_transitions(t if t % 2 else list(times), *data)
            for env in range(n_envs):
                if lengths[env] <= t:
                    continue
                steps[env].append({key: value[env] for key, value in step.items()})
                if lengths[env] == t + 1:
                    after = world.step()
                    avail = world.random.random((n_envs, A, DIM)) < 0.7
                    last = world.random.normal(size=(A, 1)).astype(np.float32)
                    more = {} if isinstance(buffer, xm.MARL_OffPolicyBuffer_RNN) else {"value_next": last}
                    seen_state = after["state"] if buffer.state_space is not None else None
                    buffer.finish_path(env, t + 1, after["obs"], seen_state, avail, filled, **more)
                    finished[env] = {
                        "steps": steps[env],
                        "obs": after["obs"][env],
                        "state": after["state"][env],
                        "avail_actions": avail[env],
                        "last": last[:, 0].astype(float),
                    }
        buffer.store_episodes()
        stored += [finished[env] for env in range(n_envs)]
    return stored


def check_episode(samples: dict[str, Any], k: int, episode: dict[str, Any]) -> None:
    length = len(episode["steps"])
    for key in set(samples) - {"returns", "advantages", "filled"}:
        agents = key not in ("terminals", "state")
        rows = samples[key][k].swapaxes(0, 1) if agents else samples[key][k]
        plain = [step[key] for step in episode["steps"]]
        if key == "values":
            plain = [value.reshape(rows.shape[1:]) for value in plain]
        if key in ("obs", "state", "avail_actions"):
            plain.append(episode[key])
        np.testing.assert_array_equal(rows[: len(plain)], np.stack(plain), err_msg=key)
        rest = rows[len(plain) :]
        assert rest.all() if key == "avail_actions" else not rest.any()
    assert samples["filled"][k, :, 0].tolist() == [t < length for t in range(samples["filled"].shape[1])]


def rollout(cls: Any = xm.MARL_OnPolicyBuffer, **options: Any) -> tuple[Any, World]:
    return make(cls, **options), World(options.get("n_envs", 2), limits=False)


def mean_field(n_size: int = 4, batch: int = 50) -> Any:
    return xm.MeanField_OffPolicyBuffer(1, None, (1,), (), (1,), (1, 1), (1,), 1, n_size, batch, seed=0)


def mean_step(mean: float, *, done: bool = False, **more: Any) -> dict[str, Any]:
    return {
        "obs": np.zeros((1, 1, 1)),
        "obs_next": np.zeros((1, 1, 1)),
        "actions": np.zeros((1, 1)),
        "rewards": np.zeros((1, 1, 1)),
        "terminals": np.array([[done]]),
        "act_mean": np.array([[mean]]),
        **more,
    }


def pairs_of(buffer: Any) -> dict[float, float]:
    samples = buffer.sample()
    return dict(zip(samples["act_mean"].ravel().tolist(), samples["act_mean_next"].ravel().tolist(), strict=True))


def rnn(**options: Any) -> Any:
    return make(xm.MARL_OnPolicyBuffer_RNN, size=4, **options)


def rnn_step(world: World) -> tuple[Any, ...]:
    step = world.step()
    actions = {"actions_n": step["actions"], "values": step["values"], "log_pi": step["log_pi_old"]}
    return (
        step["obs"],
        actions,
        step["state"],
        step["rewards"],
        step["terminals"],
        np.ones((world.n_envs, A, DIM), bool),
    )
