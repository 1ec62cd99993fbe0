"""The door to torch."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np
import pytest
import torch

import relive as rl
from refusals import refused
from relive.tensors import from_env


@pytest.fixture
def batch() -> rl.Batch:
    schema = rl.Schema(obs={"a": rl.Field((2,)), "b": rl.Field((), "uint16")}, action=rl.Field((), "bool"))
    memory = rl.Memory(schema, 20, sampler=rl.Prioritized(), seed=0)
    for t in range(9):
        memory.append(obs={"a": [t, t], "b": t}, action=True, reward=1.0, terminated=t == 8, truncated=False)
    return memory.sample(5)


def test_tensors_share_the_batch(batch: rl.Batch) -> None:
    tensors = rl.to_torch(batch)
    assert tensors.obs.a.data_ptr() == batch.obs.a.ctypes.data
    assert tensors.obs.b.dtype == torch.uint16
    assert tensors.action.dtype == torch.bool
    tensors.obs.a.fill_(7)
    assert (batch.obs.a == 7).all()
    assert set(tensors) == set(batch)


def test_tensors_outlive_the_batch(batch: rl.Batch) -> None:
    kept = batch.obs.a.copy()
    tensors = rl.to_torch(batch)
    del batch
    np.testing.assert_array_equal(tensors.obs.a.numpy(), kept)


def test_a_device_may_be_named(batch: rl.Batch) -> None:
    assert rl.to_torch(batch, "meta").reward.device.type == "meta"


@pytest.mark.skipif(torch.accelerator.is_available(), reason="memory can be pinned here")
def test_pinning_needs_an_accelerator(batch: rl.Batch) -> None:
    with refused(rl.errors.OptionError, "pin", got="True"):
        rl.to_torch(batch, pin=True)


def test_errors_may_be_tensors_with_gradients() -> None:
    memory = rl.Memory(rl.Schema(obs=rl.Field()), 20, sampler=rl.Prioritized(1.0, eps=1e-300), seed=0)
    memory.append(obs=0, reward=0.0, terminated=True, truncated=False)
    drawn = memory.sample(1)
    memory.update_priorities(rl.to_torch(drawn), torch.tensor([-2.5], requires_grad=True))
    assert memory.priorities[0, 0] == 2.5
    memory.update_priorities(drawn, torch.tensor([4.0], dtype=torch.bfloat16))
    assert memory.priorities[0, 0] == 4


def test_dlpack_shares_too(batch: rl.Batch) -> None:
    assert torch.from_dlpack(batch.reward).data_ptr() == batch.reward.ctypes.data


def test_without_torch_the_remedy_is_named(batch: rl.Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def fake(name: str, *rest: Any, **more: Any) -> Any:
        if name == "torch":
            raise ModuleNotFoundError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", fake)
    with pytest.raises(rl.errors.MissingExtra) as caught:
        rl.to_torch(batch)
    assert (caught.value.package, caught.value.extra) == ("torch", "torch")


def test_actions_are_int64() -> None:
    """Stored in a byte, but torch's functions want int64; images stay as they are."""
    schema = rl.Schema(
        obs=rl.Field((4, 4), "uint8"),
        action=rl.Field((2,), "uint8"),
        last_action=rl.Field((), "int16", "action"),
        action_count=rl.Field((), "int16"),
        team=rl.Group({"action": rl.Field((), "uint8"), "traction": rl.Field((), "uint8")}),
        avail_actions=rl.Field((3,), "bool"),
    )
    memory = rl.Memory(schema, 10, seed=0)
    memory.append(
        obs=np.ones((4, 4), np.uint8),
        action=[1, 2],
        last_action=2,
        action_count=2,
        team={"action": 1, "traction": 1},
        avail_actions=[True, True, False],
        terminated=True,
        truncated=False,
    )
    batch = rl.to_torch(memory.sample(4))
    assert batch.action.dtype == batch.last_action.dtype == batch.team.action.dtype == torch.int64
    assert batch.obs.dtype == batch.team.traction.dtype == torch.uint8
    assert batch.action_count.dtype == torch.int16
    assert batch.avail_actions.dtype == torch.bool
    assert torch.zeros(4, 3).gather(1, batch.action).shape == (4, 2)
    assert torch.nn.functional.one_hot(batch.action, 3).sum() == 8
    assert torch.nn.Embedding(3, 2)(batch.last_action).shape == (4, 2)


def test_actions_of_plain_dicts_go_by_name() -> None:
    byte = np.ones(2, np.uint8)
    batch = rl.to_torch({"actions": byte, "red": {"action": {"move": byte}}, "last_action": byte})
    assert batch.actions.dtype == batch.red.action.move.dtype == torch.int64
    assert batch.last_action.dtype == torch.uint8


def test_an_observation_called_action_is_none() -> None:
    """The same dtype when acting and when learning."""
    schema = rl.Schema(obs={"action": rl.Field((), "uint8")}, move=rl.Field((), "uint8", "action"))
    memory = rl.Memory(schema, 10, seed=0)
    memory.append(obs={"action": 1}, move=1, reward=0.0, terminated=True, truncated=False)
    batch = rl.to_torch(memory.sample(2))
    assert batch.obs.action.dtype == from_env({"obs/action": np.ones(2, np.uint8)}).obs.action.dtype == torch.uint8
    assert batch.move.dtype == torch.int64


def test_size_is_the_number_of_samples(batch: rl.Batch) -> None:
    assert rl.to_torch(batch).size == batch.size == 5


def test_what_environments_show_is_as_rows_hold_it() -> None:
    """Floats of twice the size, which Gymnasium's environments often show, come as the memory would keep them."""
    shown = {
        "red/obs": np.ones((2, 3)),
        "red/avail_actions": np.ones((2, 4), bool),
        "image": np.zeros((2, 5), np.uint8),
    }
    found = from_env(shown)
    assert found["red"]["obs"].dtype == torch.float32
    assert found["red"]["avail_actions"].dtype == torch.bool
    assert found["image"].dtype == torch.uint8


def test_tensors_are_shown_in_brief() -> None:
    batch = rl.to_torch({"obs": {"pose": np.zeros((2, 3), np.float32)}, "reward": np.zeros(2)})
    assert repr(batch) == "TensorBatch(obs: (pose: torch.float32[2, 3]), reward: torch.float64[2])"
