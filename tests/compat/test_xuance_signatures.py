"""Names, order and defaults of arguments, as XuanCe documents them; more may follow, with defaults."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Any

import gymnasium
import pytest

from relive.compat.xuance.v1_1 import memory_tools, memory_tools_marl

SINGLE = "observation_space action_space auxiliary_shape n_envs n_size"
ON_POLICY = f"{SINGLE} use_gae=True use_advnorm=True gamma=0.99 gae_lam=0.95"
MANY = "n_agents state_space obs_space act_space rew_space done_space n_envs"
ROLLOUT = f"{MANY} buffer_size use_gae use_advnorm gamma gae_lam **kwargs"
STORE_OFF = "obs acts rews terminals next_obs"
FINISH_EPISODE = "i_env next_t *terminal_data value_next=None value_normalizer=None"

DOCUMENTED = {
    memory_tools: {
        "create_memory": "shape n_envs n_size dtype=float32",
        "store_element": "data memory ptr",
        "sample_batch": "memory index",
        "Buffer": "observation_space action_space auxiliary_info_shape",
        "Buffer.store": "*args",
        "Buffer.clear": "*args",
        "Buffer.sample": "*args",
        "Buffer.finish_path": "*args",
        "EpisodeBuffer": "",
        "EpisodeBuffer.put": "transition",
        "EpisodeBuffer.sample": "lookup_step=None idx=None",
        "EpisodeBuffer.__len__": "",
        "DummyOnPolicyBuffer": ON_POLICY,
        "DummyOnPolicyBuffer.clear": "",
        "DummyOnPolicyBuffer.store": "obs acts rews value terminals aux_info=None",
        "DummyOnPolicyBuffer.finish_path": "val i",
        "DummyOnPolicyBuffer.sample": "indexes",
        "DummyOnPolicyBuffer_Atari": ON_POLICY,
        "DummyOnPolicyBuffer_Atari.clear": "",
        "DummyOffPolicyBuffer": f"{SINGLE} batch_size",
        "DummyOffPolicyBuffer.clear": "",
        "DummyOffPolicyBuffer.store": STORE_OFF,
        "DummyOffPolicyBuffer.sample": "",
        "DummyOffPolicyBuffer_Atari": f"{SINGLE} batch_size",
        "DummyOffPolicyBuffer_Atari.clear": "",
        "RecurrentOffPolicyBuffer": f"{SINGLE} batch_size episode_length lookup_length",
        "RecurrentOffPolicyBuffer.can_sample": "",
        "RecurrentOffPolicyBuffer.clear": "*",
        "RecurrentOffPolicyBuffer.store": "episode",
        "RecurrentOffPolicyBuffer.sample": "",
        "PerOffPolicyBuffer": f"{SINGLE} batch_size alpha=0.6",
        "PerOffPolicyBuffer._sample_proportional": "env_idx batch_size",
        "PerOffPolicyBuffer.clear": "",
        "PerOffPolicyBuffer.store": STORE_OFF,
        "PerOffPolicyBuffer.sample": "beta",
        "PerOffPolicyBuffer.update_priorities": "idxes priorities",
    },
    memory_tools_marl: {
        "BaseBuffer": "*args",
        "BaseBuffer.store": "*args **kwargs",
        "BaseBuffer.clear": "*args",
        "BaseBuffer.sample": "*args",
        "BaseBuffer.finish_path": "*args",
        "MARL_OnPolicyBuffer": ROLLOUT,
        "MARL_OnPolicyBuffer.clear": "",
        "MARL_OnPolicyBuffer.store": "step_data",
        "MARL_OnPolicyBuffer.finish_path": "value i_env value_normalizer=None",
        "MARL_OnPolicyBuffer.sample": "indexes",
        "MARL_OnPolicyBuffer_RNN": ROLLOUT,
        "MARL_OnPolicyBuffer_RNN.clear": "",
        "MARL_OnPolicyBuffer_RNN.clear_episodes": "",
        "MARL_OnPolicyBuffer_RNN.store_transitions": "t_envs *transition_data",
        "MARL_OnPolicyBuffer_RNN.store_episodes": "",
        "MARL_OnPolicyBuffer_RNN.finish_path": FINISH_EPISODE,
        "MARL_OnPolicyBuffer_RNN.sample": "indexes",
        "MeanField_OnPolicyBuffer": f"{MANY} n_size use_gae use_advnorm gamma gae_lam **kwargs",
        "MeanField_OnPolicyBuffer.clear": "",
        "MeanField_OnPolicyBuffer.finish_ac_path": "value i_env",
        "COMA_Buffer": ROLLOUT,
        "COMA_Buffer.clear": "",
        "COMA_Buffer.finish_path": "value i_env value_normalizer=None",
        "COMA_Buffer_RNN": ROLLOUT,
        "COMA_Buffer_RNN.clear": "",
        "COMA_Buffer_RNN.clear_episodes": "",
        "COMA_Buffer_RNN.store_transitions": "t_envs *transition_data",
        "COMA_Buffer_RNN.finish_path": FINISH_EPISODE,
        "MARL_OffPolicyBuffer": f"{MANY} buffer_size batch_size **kwargs",
        "MARL_OffPolicyBuffer.clear": "",
        "MARL_OffPolicyBuffer.store": "step_data",
        "MARL_OffPolicyBuffer.sample": "",
        "MARL_OffPolicyBuffer_RNN": f"{MANY} buffer_size batch_size **kwargs",
        "MARL_OffPolicyBuffer_RNN.clear": "",
        "MARL_OffPolicyBuffer_RNN.clear_episodes": "",
        "MARL_OffPolicyBuffer_RNN.store_transitions": "t_envs *transition_data",
        "MARL_OffPolicyBuffer_RNN.store_episodes": "",
        "MARL_OffPolicyBuffer_RNN.finish_path": "i_env next_t *terminal_data",
        "MARL_OffPolicyBuffer_RNN.sample": "",
        "MeanField_OffPolicyBuffer": (
            "n_agents state_space obs_space act_space prob_shape rew_space done_space n_envs buffer_size batch_size"
        ),
        "MeanField_OffPolicyBuffer.clear": "",
        "MeanField_OffPolicyBuffer.sample": "",
    },
}


def written(parameter: inspect.Parameter) -> str:
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    default = getattr(parameter.default, "__name__", parameter.default)
    default = "" if parameter.default is inspect.Parameter.empty else f"={default}"
    return f"{stars}{parameter.name}{default}"


@pytest.mark.parametrize(("module", "name"), [(m, name) for m, names in DOCUMENTED.items() for name in names])
def test_signatures_are_the_documented_ones(module: Any, name: str) -> None:
    target = module
    for part in name.split("."):
        target = getattr(target, part)
    parameters = [p for p in inspect.signature(target).parameters.values() if p.name != "self"]
    documented = DOCUMENTED[module][name].split(" ") if DOCUMENTED[module][name] else []
    ours = [written(parameter) for parameter in parameters]
    if documented == ["*"]:
        assert ours[0].startswith("*")
        return
    added = [p for p in parameters if written(p) not in documented]
    assert [text for text in ours if text in documented] == documented
    for parameter in added:
        assert parameter.default is not inspect.Parameter.empty
        assert parameter.name in ("seed", "truncations", "aux_info", "padded", "batch_size")


BROUGHT_ALONG = {"MinSegmentTree", "SumSegmentTree", "discount_cumsum", "space2shape"}
"""What XuanCe's modules import, and others import from them."""


def test_all_twenty_names_are_there_and_no_others() -> None:
    names = [name for module in DOCUMENTED for name in module.__all__ if name not in BROUGHT_ALONG]
    assert len(names) == len(set(names)) == 20
    for module, documented in DOCUMENTED.items():
        assert set(module.__all__) - BROUGHT_ALONG == {name.split(".")[0] for name in documented}


def test_full_is_a_property_of_every_buffer() -> None:
    for module in DOCUMENTED:
        for name in module.__all__:
            if "Buffer" in name and name != "EpisodeBuffer":
                assert isinstance(inspect.getattr_static(getattr(module, name), "full"), property), name


ATTRIBUTES = {
    "DummyOnPolicyBuffer": "observation_space action_space auxiliary_shape n_envs n_size buffer_size use_gae "
    "use_advnorm gamma gae_lam ptr size full start_ids observations actions rewards returns values terminals "
    "advantages auxiliary_infos",
    "DummyOffPolicyBuffer": "observation_space action_space auxiliary_shape n_envs n_size batch_size ptr size full "
    "observations next_observations actions rewards terminals auxiliary_infos",
    "RecurrentOffPolicyBuffer": "n_envs n_size batch_size episode_length lookup_length memory ptr size full",
    "MARL_OnPolicyBuffer": "n_agents state_space obs_space act_space rew_space done_space n_envs buffer_size n_size "
    "use_gae use_advantage_norm gamma gae_lambda data start_ids keys data_shapes ptr size full",
    "MARL_OnPolicyBuffer_RNN": "max_eps_len dim_act episode_data data keys data_shapes ptr size full",
    "MeanField_OnPolicyBuffer": "prob_space data start_ids",
    "COMA_Buffer": "dim_act td_lambda data",
    "COMA_Buffer_RNN": "dim_act td_lambda data episode_data",
    "MARL_OffPolicyBuffer": "batch_size n_size store_global_state data keys ptr size full",
    "MARL_OffPolicyBuffer_RNN": "max_eps_len dim_act episode_data data keys ptr size full",
    "MeanField_OffPolicyBuffer": "prob_shape data",
}
DATA = {
    "MARL_OnPolicyBuffer": "obs actions rewards returns values log_pi_old advantages terminals agent_mask state",
    "MARL_OnPolicyBuffer_RNN": "obs actions rewards returns values advantages log_pi_old terminals avail_actions "
    "filled state",
    "MeanField_OnPolicyBuffer": "obs actions act_mean rewards returns values advantages terminals agent_mask state",
    "COMA_Buffer": "obs actions actions_onehot rewards returns values log_pi_old terminals agent_mask state",
    "COMA_Buffer_RNN": "obs actions actions_onehot rewards returns values advantages log_pi_old terminals "
    "avail_actions filled state",
    "MARL_OffPolicyBuffer": "obs actions obs_next rewards terminals agent_mask state state_next",
    "MARL_OffPolicyBuffer_RNN": "obs actions rewards terminals avail_actions filled state",
    "MeanField_OffPolicyBuffer": "obs actions obs_next rewards terminals agent_mask state state_next act_mean",
}


def made(name: str) -> Any:
    box, discrete = gymnasium.spaces.Box(-1, 1, (3,)), gymnasium.spaces.Discrete(2)
    if hasattr(memory_tools, name):
        more = {"DummyOnPolicyBuffer": (), "RecurrentOffPolicyBuffer": (2, 5, 2)}.get(name, (2,))
        return getattr(memory_tools, name)(box, discrete, {"note": ()}, 2, 4, *more)
    spaces: tuple[Any, ...] = (3, (5,), (4,), (), (1,) if "RNN" in name else (3, 1), (3,))
    rollout = (True, True, 0.9, 0.9) if "On" in name or "COMA" in name else (2,)
    options: dict[str, Any] = {"max_episode_length": 6, "dim_act": 2, "td_lambda": 0.8, "prob_space": (2,)}
    if name == "MeanField_OffPolicyBuffer":
        spaces, options = (*spaces[:4], (2,), *spaces[4:]), {}
    return getattr(memory_tools_marl, name)(*spaces, 2, 4, *rollout, **options)


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_documented_attributes_and_shapes_are_there(name: str) -> None:
    buffer = made(name)
    for attribute in ATTRIBUTES[name].split():
        assert hasattr(buffer, attribute), attribute
    if name not in DATA:
        return
    extra = {"act_mean_next"} if name == "MeanField_OffPolicyBuffer" else set()
    assert set(buffer.data) - extra == set(DATA[name].split())
    if "RNN" in name:
        assert buffer.data["obs"].shape == (4, 3, 7, 4)
        assert buffer.data["actions"].shape == (4, 3, 6)
        assert buffer.data["rewards"].shape == (4, 3, 6, 1)
        assert buffer.data["state"].shape == (4, 7, 5)
        assert buffer.data["terminals"].shape == (4, 6, 3)
        assert buffer.data["avail_actions"].shape == (4, 3, 7, 2)
        assert buffer.data["filled"].shape == (4, 6, 1)
        assert {key: array.shape[1:] for key, array in buffer.episode_data.items()} == {
            key: array.shape[1:] for key, array in buffer.data.items()
        }
    else:
        assert buffer.data["obs"].shape == (2, 2, 3, 4)
        assert buffer.data["actions"].shape == buffer.data["terminals"].shape == (2, 2, 3)
        assert buffer.data["rewards"].shape == (2, 2, 3, 1)
        assert buffer.data["state"].shape == (2, 2, 5)


def test_numpy_2_is_enough() -> None:
    """No gym, no Gymnasium, no torch: spaces are known by what they look like."""
    code = (
        "import sys, relive.compat.xuance.v1_1.memory_tools, relive.compat.xuance.v1_1.memory_tools_marl, numpy\n"
        "assert int(numpy.__version__[0]) >= 2\n"
        "assert not {'gym', 'gymnasium', 'torch'} & set(sys.modules), sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
