"""Policies for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_runs import one_of_each

import relive as rl
from refusals import refused
from relive import envs
from relive.agents.maddpg import MADDPGConfig
from relive.training.export import example_inputs, load_agents, save_agents, to_onnx, to_torch_export
from relive.training.replay import load_run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return one_of_each(tmp_path_factory.mktemp("runs"))


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("marines", "cart", "chance")]


@pytest.mark.parametrize("name", ["tag", "spread", "recurrent", *SLOW])
def test_other_programs_compute_the_same(runs: dict[str, Path], name: str, tmp_path: Path) -> None:
    """ONNX by onnxruntime and torch.export, for a number of environments that neither was written with."""
    import onnxruntime

    learner = load_run(runs[name]).learner
    module = rl.load_policy(runs[name]).module
    to_onnx(learner, tmp_path / "policy.onnx")
    to_torch_export(learner, tmp_path / "policy.pt2")
    session = onnxruntime.InferenceSession(str(tmp_path / "policy.onnx"))
    again = torch.export.load(tmp_path / "policy.pt2").module()
    inputs = example_inputs(module, 9, seed=1)
    with torch.no_grad():
        wanted = module(*inputs)
    fed = {key.replace("/", "_"): value.numpy() for key, value in zip(module.inputs, inputs, strict=True)}  # type: ignore[union-attr, arg-type]
    for one, two, three in zip(wanted, session.run(None, fed), again(*inputs), strict=True):
        np.testing.assert_allclose(two, one.numpy(), atol=1e-5)
        np.testing.assert_allclose(three.numpy(), one.numpy(), atol=1e-5)


def test_the_module_does_what_the_policy_does(runs: dict[str, Path]) -> None:
    """Step after step, with states and last actions fed back."""
    policy = rl.load_policy(runs["marines"])
    module: Any = policy.module
    world = envs.make("marines_3v3", num_envs=4)
    obs = world.reset(seed=1)
    last, state = torch.full((4, 3), -1), torch.zeros(4, *module.inputs["hidden_state"][0])
    for _ in range(12):
        given = {
            "last_action": last,
            "hidden_state": state,
            **{key: torch.from_numpy(value) for key, value in obs.items()},
        }
        with torch.no_grad():
            last, state = module(*(given[name] for name in module.inputs))
        action = policy.act(obs)["action"]
        np.testing.assert_array_equal(last.numpy(), action)
        step = world.step(action)
        if step.ended.any():
            break
        obs = step.obs


@pytest.mark.parametrize("settings", [{}, {"parameter_sharing": ("agent", "adversary")}])
def test_weights_of_each_agent(settings: dict[str, Any], tmp_path: Path) -> None:
    env = envs.make("simple_tag")
    one, two = (MADDPGConfig(hidden=(8,), **settings).learner(env, seed=seed) for seed in (1, 2))
    written = save_agents(one, env.groups, tmp_path)
    names = ["adversary_0", "adversary_1", "adversary_2", "agent_0"]
    assert [path.parent.name for path in written] == names
    load_agents(two, env.groups, tmp_path)
    for name, module in one.agent_modules().items():
        other = two.agent_modules()[name].state_dict()
        assert all(torch.equal(value, other[key]) for key, value in module.state_dict().items())
    (tmp_path / "agent_0" / "actor.safetensors").unlink()
    three = MADDPGConfig(hidden=(8,), **settings).learner(env, seed=3)
    before = {key: value.clone() for key, value in three.agent_modules()["agent"].state_dict().items()}
    load_agents(three, env.groups, tmp_path)
    assert all(torch.equal(value, before[key]) for key, value in three.agent_modules()["agent"].state_dict().items())
    wider = MADDPGConfig(hidden=(9,), **settings).learner(env, seed=3)
    with refused(rl.errors.RunError, "per_agent.networks.layers.* of adversary_0"):
        load_agents(wider, env.groups, tmp_path)
