"""Schemas from Gymnasium spaces."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

import relive as rl
from refusals import refused
from relive.errors import SchemaError


def kinds(schema: rl.Schema) -> dict[str, tuple[str, tuple[int, ...]]]:
    return {column.key: (str(column.dtype), column.shape) for column in schema}


def test_every_kind_in_its_smallest_exact_dtype() -> None:
    schema = rl.Schema.from_spaces(
        obs=spaces.Dict(
            image=spaces.Box(0, 255, (8, 8), np.uint8),
            pose=spaces.Box(-1, 1, (3,), np.float64),
            inner=spaces.Tuple([spaces.Discrete(6), spaces.MultiBinary(4)]),
        ),
        action=spaces.Discrete(300, start=-5),
        parts=spaces.MultiDiscrete([3, 70_000]),
        counts=spaces.Box(0, 60_000, (2,), np.int64),
        log_prob=rl.Field(),
        reward=None,
    )
    assert kinds(schema) == {
        "obs/image": ("uint8", (8, 8)),
        "obs/pose": ("float32", (3,)),
        "obs/inner/0": ("uint8", ()),
        "obs/inner/1": ("bool", (4,)),
        "action": ("int16", ()),
        "parts": ("uint32", (2,)),
        "counts": ("uint16", (2,)),
        "log_prob": ("float32", ()),
    }


def test_float64_on_request() -> None:
    schema = rl.Schema.from_spaces(obs=spaces.Box(-1, 1, (3,), np.float64), float64=True)
    assert kinds(schema)["obs"] == ("float64", (3,))


def test_unknown_spaces_are_refused() -> None:
    with refused(SchemaError, "obs"):
        rl.Schema.from_spaces(obs=spaces.Text(4))


def test_agents_alike_are_stacked() -> None:
    names = ["agent_0", "agent_1", "agent_2"]
    schema = rl.Schema.from_agents(
        obs={name: spaces.Box(-1, 1, (18,)) for name in names},
        action={name: spaces.Discrete(5) for name in names},
        state=spaces.Box(-1, 1, (54,)),
    )
    assert kinds(schema) == {
        "obs": ("float32", (3, 18)),
        "action": ("uint8", (3,)),
        "reward": ("float32", (3,)),
        "state": ("float32", (54,)),
    }
    assert schema.agents == {"": ("agent_0", "agent_1", "agent_2")}


def test_agents_that_differ_form_groups() -> None:
    obs = {
        "adversary_0": spaces.Box(-1, 1, (8,)),
        "agent_0": spaces.Box(-1, 1, (10,)),
        "agent_1": spaces.Box(-1, 1, (10,)),
    }
    action = {name: spaces.Discrete(5) for name in obs}
    schema = rl.Schema.from_agents(obs=obs, action=action)
    assert schema.agents == {"adversary": ("adversary_0",), "agent": ("agent_0", "agent_1")}
    assert kinds(schema)["agent/obs"] == ("float32", (2, 10))
    assert kinds(schema)["adversary/reward"] == ("float32", (1,))
    named = rl.Schema.from_agents(
        obs=obs, action=action, groups={"good": ["agent_0", "agent_1"], "bad": ["adversary_0"]}, shared_reward=True
    )
    assert [c.key for c in named] == ["good/obs", "good/action", "bad/obs", "bad/action", "reward"]


def test_kinds_that_share_a_name_are_told_apart() -> None:
    obs = {"a_0": spaces.Box(-1, 1, (1,)), "a_1": spaces.Box(-1, 1, (2,))}
    schema = rl.Schema.from_agents(obs=obs, action={name: spaces.Discrete(2) for name in obs})
    assert schema.agents == {"a": ("a_0",), "a_2": ("a_1",)}


def test_agents_must_agree() -> None:
    box, choice = spaces.Box(-1, 1, (1,)), spaces.Discrete(2)
    with refused(SchemaError, "obs and action", got="['a'] and ['b']"):
        rl.Schema.from_agents(obs={"a": box}, action={"b": choice})
    with refused(SchemaError, "groups", got="none"):
        rl.Schema.from_agents(obs={"a": box}, action={"a": choice}, groups={"x": []})
    with refused(SchemaError, "groups", got="a"):
        rl.Schema.from_agents(obs={"a": box}, action={"a": choice}, groups={"x": [], "y": ["a"]})
    with refused(SchemaError, "group", got="'state'"):
        rl.Schema.from_agents(obs={"a": box}, action={"a": choice}, groups={"state": ["a"]}, state=rl.Field())
    with refused(SchemaError, "group x", got="a, b"):
        rl.Schema.from_agents(
            obs={"a": box, "b": spaces.Box(-1, 1, (2,))},
            action={"a": choice, "b": choice},
            groups={"x": ["a", "b"]},
        )


@pytest.mark.parametrize("name", ["size", "action_keys", "lengths", "observation", "rewards"])
def test_groups_are_not_named_as_fields_or_parts_of_batches_are(name: str) -> None:
    box = {f"{name}_0": spaces.Box(-1, 1, (2,)), "other_0": spaces.Box(-1, 1, (3,))}
    schema = rl.Schema.from_agents(obs=box, action={agent: spaces.Discrete(2) for agent in box})
    assert set(schema.agents) == {f"agents_{name}", "other"}
