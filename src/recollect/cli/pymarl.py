"""``recollect pymarl``: PyMARL's command line, with its words for settings.

recollect pymarl --config=qmix --env-config=sc2 with env_args.map_name=MarineMicro_MvsM_4 t_max=2050000
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Any

from recollect import envs
from recollect.agents.qmix import QMIXConfig
from recollect.cli.train import notified_run
from recollect.envs import particle
from recollect.errors import OptionError
from recollect.train import RunConfig

__all__ = ["pymarl"]

_USAGE = """\
usage: recollect pymarl --config=NAME --env-config=NAME [with KEY=VALUE ...]

PyMARL's command line: --config is qmix, vdn or iql; --env-config is sc2 (env_args.map_name=MarineMicro_MvsM_4,
3m, 8m, 5m_vs_6m, ...: marines) or gymma (env_args.key=mpe:SimpleSpread-v0, ...: particle worlds).
After "with" come settings by PyMARL's names, such as t_max=2050000 lr=0.0005 env_args.map_name=8m."""

_MIXERS = {"qmix": "qmix", "vdn": "vdn", "iql": "none", None: "none"}
_CONFIGS = {"qmix": "qmix", "vdn": "vdn", "iql": "none"}
_ENVS = {
    "sc2": {"eval_every": 10_000, "eval_episodes": 32, "steps": 2_050_000},
    "gymma": {"eval_every": 50_000, "eval_episodes": 100, "steps": 2_050_000},
}

# PyMARL's, EPyMARL's and PyMARL2's keys, and what they are here: a setting of the same meaning.
_RUN = {
    "t_max": "steps",
    "seed": "seed",
    "test_interval": "eval_every",
    "test_nepisode": "eval_episodes",
    "save_model_interval": "save_every",
}
_ALGORITHM = {
    "gamma": "gamma",
    "lr": "lr",
    "optim_eps": "eps",
    "grad_norm_clip": "max_grad_norm",
    "buffer_size": "buffer_size",
    "rnn_hidden_dim": "hidden",
    "hidden_dim": "hidden",
    "obs_agent_id": "agent_id",
    "obs_last_action": "last_action",
    "epsilon_start": "epsilon_start",
    "epsilon_finish": "epsilon_end",
    "epsilon_anneal_time": "epsilon_steps",
    "target_update_interval": "target_update_interval",
    "double_q": "double_q",
    "mixing_embed_dim": "mixing_units",
    "hypernet_embed": "hypernet_units",
    "td_lambda": "td_lambda",
    "optimizer": "optimizer",
    "use_rnn": "recurrent",
    "standardise_rewards": "standardize_reward",
    "reward_scalarisation": "reward",
}
# Keys that mean something else than one setting of the same kind, taken in this order, and the settings they become.
_SPECIAL = {
    "batch_size": ("batch_size", "learning_starts"),
    "batch_size_run": ("num_envs", "update_every"),
    "mixer": ("mixer",),
    "hypernet_layers": ("hypernet_units",),
    "target_update_interval_or_tau": ("target_update_interval", "tau"),
    "common_reward": ("reward",),
}
_ONLY: dict[str, tuple[Any, ...]] = {
    "agent": ("rnn", "n_rnn"),
    "agent_output_type": ("q",),
    "action_selector": ("epsilon_greedy",),
    "learner": ("q_learner", "nq_learner"),
    "mac": ("basic_mac", "n_mac"),
    "runner": ("episode", "parallel"),
    "optim_alpha": (0.99,),
    "test_greedy": (True,),
    "evaluation_epsilon": (0.0, 0),
    "standardise_returns": (False,),
    "q_lambda": (False,),
    "evaluate": (False,),
    "checkpoint_path": ("",),
    "save_replay": (False,),
    "render": (False,),
    "obs_individual_obs": (False,),
    "add_value_last_step": (True,),
    "use_layer_norm": (False,),
    "use_orthogonal": (False,),
    "use_per": (False,),
    "return_priority": (False,),
    "reward_scalarisation": ("sum", "mean"),
    "hypergroup": (None,),
}
_SWITCHES = ("use_cuda", "buffer_cpu_only", "use_tensorboard", "save_model", "use_wandb", "wandb_save_model")
_NOTHING = (
    *("local_results_path", "load_step", "name", "label", "repeat_id", "critic_lr", "env", "run", "gain"),
    *("log_interval", "runner_log_interval", "learner_log_interval", "per_alpha", "per_beta"),
    *("wandb_team", "wandb_project", "wandb_mode"),
)
"""These and switches change nothing here: everything is logged, saved and computed by the processor anyway."""
_SC2_ONLY: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("obs_all_health", "obs_own_health", "reward_scale", "state_last_action"), (True,)),
    **dict.fromkeys(("continuing_episode", "obs_instead_of_state", "obs_last_action", "obs_pathing_grid"), (False,)),
    **dict.fromkeys(("obs_terrain_height", "obs_timestep_number", "state_timestep_number"), (False,)),
    **dict.fromkeys(("heuristic_ai", "heuristic_rest"), (False,)),
    "reward_death_value": (10,),
    "reward_defeat": (0,),
    "reward_negative_scale": (0.5,),
    "reward_scale_rate": (20,),
    "reward_win": (200,),
    "move_amount": (2,),
    "step_mul": (8,),
    "difficulty": ("7", 7),
}
_SC2_NOTHING = ("game_version", "replay_dir", "replay_prefix", "seed", "debug")
_SC2_ARGS = ("map_name", "reward_only_positive", "reward_sparse", *_SC2_ONLY, *_SC2_NOTHING)
_KINDS: dict[type, str] = {bool: "True or False", int: "a whole number", float: "a number", str: "a word"}
_GYMMA_ARGS = ("key", "time_limit", "pretrained_wrapper")
_GYMMA_LIMIT = 100  # of EPyMARL's gymma.yaml
_PETTINGZOO_LIMIT = 25  # of PettingZoo's own, which end there whatever EPyMARL says


def pymarl(arguments: Sequence[str]) -> int:
    """Run the command with these arguments; returns the exit code."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_USAGE)
        return 0 if arguments else 2
    names, given = _parted(arguments)
    env_config = names.get("env-config", "sc2")
    _one_of("--config", names.get("config"), _CONFIGS)
    _one_of("--env-config", env_config, _ENVS)
    typed = dict(given)
    env, options = (_marines if env_config == "sc2" else _particles)(given)
    mixer: Any = _CONFIGS[names["config"]]
    algorithm = {**QMIXConfig(mixer=mixer).presets["pymarl" if env_config == "sc2" else "epymarl"], "mixer": mixer}
    if env_config == "gymma" and "target_update_interval" not in given:
        given.setdefault("target_update_interval_or_tau", 200)
    run: dict[str, Any] = {**_ENVS[env_config], "env_options": options}
    for key, value in sorted(given.items(), key=lambda pair: _late(pair[0])):
        if key in _ONLY:
            _only(key, value, _ONLY[key])
        if key in _RUN:
            run[_RUN[key]] = _like(key, value, getattr(RunConfig(), _RUN[key]))
        elif key in _ALGORITHM:
            algorithm[_ALGORITHM[key]] = _like(key, value, getattr(QMIXConfig(), _ALGORITHM[key]))
        elif key in _SPECIAL:
            _special(key, value, algorithm, run)
        elif key in _SWITCHES:
            _like(key, value, True)
        elif key not in (*_ONLY, *_NOTHING):
            known = [*_RUN, *_ALGORITHM, *_SPECIAL, *_ONLY, *_SWITCHES, *_NOTHING]
            of_env = [f"env_args.{name}" for name in (_SC2_ARGS if env_config == "sc2" else _GYMMA_ARGS)]
            raise _unknown("setting", key, [f"env_args.{key}"] if f"env_args.{key}" in of_env else known)
    if algorithm.get("optimizer", "adam") == "adam" and "optim_eps" not in given:
        algorithm["eps"] = 0.0
    try:
        return notified_run(QMIXConfig(**algorithm), env, RunConfig(**run))
    except OptionError as error:  # by the name that was typed
        problem = error.problem
        name = next((key for key in _names(problem.name) if key in typed), problem.name)
        raise OptionError(name, problem.rule, problem.got, problem.remedy) from None


def _names(setting: str) -> list[str]:
    """Keys of PyMARL's that a setting here may come from."""
    every = {key: (name,) for key, name in {**_RUN, **_ALGORITHM, "env_args.time_limit": "max_cycles"}.items()}
    return [key for key, settings in {**every, **_SPECIAL}.items() if setting in settings]


def _parted(arguments: Sequence[str]) -> tuple[dict[str, str], dict[str, Any]]:
    """Names after dashes, and settings after ``with``."""
    names: dict[str, str] = {}
    given: dict[str, Any] = {}
    left = list(arguments)
    while left:
        word = left.pop(0)
        flag, equals, value = word.removeprefix("--").partition("=")
        if word == "with":
            continue
        if word.startswith("--"):
            if flag not in ("config", "env-config"):
                raise _unknown("flag", f"--{flag}", ["--config", "--env-config"])
            if not equals and not left:
                raise OptionError(f"--{flag}", "be followed by a name", "nothing")
            names[flag] = value if equals else left.pop(0)
        elif equals:
            given[flag] = _value(value)
        else:
            raise OptionError("argument", "be KEY=VALUE after with", repr(word))
    return names, given


def _value(text: str) -> Any:
    """A value as YAML and Python write them; anything else is text."""
    words = {"true": True, "false": False, "null": None, "none": None, "": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _like(key: str, value: Any, default: Any) -> Any:
    """A value of the kind that the setting here has."""
    if isinstance(default, bool) or isinstance(value, bool):
        fits = isinstance(value, bool) and isinstance(default, bool)
    elif isinstance(default, int):
        fits = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    elif isinstance(default, float):
        fits = isinstance(value, (int, float))
    else:
        fits = isinstance(value, str)
    if not fits:
        raise OptionError(key, f"be {_KINDS[type(default)]}", repr(value))
    return value.lower() if isinstance(value, str) else type(default)(value)


def _late(key: str) -> int:
    """Where a key comes: those that mean several settings after the others, in their order."""
    return list(_SPECIAL).index(key) if key in _SPECIAL else -1


def _special(key: str, value: Any, algorithm: dict[str, Any], run: dict[str, Any]) -> None:
    """Keys that mean several settings."""
    if key == "batch_size":
        algorithm |= dict.fromkeys(("batch_size", "learning_starts"), _like(key, value, 32))
    elif key == "batch_size_run":  # one update for as many episodes as were run side by side
        run["num_envs"] = algorithm["update_every"] = _like(key, value, 1)
    elif key == "mixer":
        _one_of(key, value, _MIXERS)
        algorithm["mixer"] = _MIXERS[value]
    elif key == "hypernet_layers":
        _one_of(key, value, (1, 2))
        if value == 1:
            algorithm["hypernet_units"] = 0
    elif key == "target_update_interval_or_tau":
        whole = isinstance(value, (int, float)) and value > 1
        if whole:  # EPyMARL counts updates
            algorithm["target_update_interval"] = _like(key, value, 1) * algorithm.get("update_every", 1)
        else:
            algorithm["tau"] = _like(key, value, 1.0)
            if algorithm["tau"] == 0:
                raise OptionError(key, "be above 0", repr(value), "Targets would never move.")
    elif not _like(key, value, True):  # common_reward
        if algorithm["mixer"] != "none":
            raise OptionError(key, "be True where values are mixed", repr(value), "Use --config=iql.")
        algorithm["reward"] = "own"


def _marines(given: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The skirmish of a StarCraft map of marines."""
    arguments = _env_args(given, _SC2_ARGS)
    name = str(arguments.get("map_name", "3m"))
    sizes = re.fullmatch(r"(\d+)m(?:_vs_(\d+)m)?", name)
    if sizes is not None:
        name = f"marines_{sizes[1]}v{sizes[2] or sizes[1]}"
    elif not name.startswith(("marines_", "MarineMicro_")):
        real = f"recollect train qmix pymarl:smac.env:StarCraft2Env --option map_name={name}"
        remedy = f"Other units are StarCraft's: `{real}` plays the real one."
        raise OptionError(
            "env_args.map_name", "be a map of marines, such as MarineMicro_MvsM_4 or 5m_vs_6m", name, remedy
        )
    for key, values in _SC2_ONLY.items():
        if key in arguments:
            _only(f"env_args.{key}", arguments[key], values)
    envs.make(name).close()
    options = {}
    sparse, positive = (
        _like(f"env_args.{key}", arguments.get(key, default), default)
        for key, default in (("reward_sparse", False), ("reward_only_positive", True))
    )
    if sparse:
        options["reward"] = "sparse"
    elif not positive:
        options["reward"] = "losses"
    return name, options


def _particles(given: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """A particle world by the names that gymma's keys have: mpe:SimpleSpread-v0, pz-mpe-simple-spread-v3."""
    arguments = _env_args(given, _GYMMA_ARGS)
    key = arguments.get("key")
    if not isinstance(key, str):
        raise OptionError("env_args.key", "name a particle world", repr(key), "Such as mpe:SimpleSpread-v0.")
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", re.sub(r"-v\d+$", "", key.split(":")[-1]))
    name = name.lower().replace("-", "_").removeprefix("pz_mpe_")
    if name not in particle.SCENARIOS:
        raise OptionError("env_args.key", "name a particle world", repr(key), "Such as mpe:SimpleSpread-v0.")
    _only("env_args.pretrained_wrapper", arguments.get("pretrained_wrapper"), (None,))
    limit = arguments.get("time_limit")
    limit = _GYMMA_LIMIT if limit is None else _like("env_args.time_limit", limit, 1)
    if key.startswith("mpe:"):  # OpenAI's worlds
        first = {"squared": True} if name == "simple_adversary" else {}
        return name, {"state": True, "max_cycles": limit, "velocity_first": True, **first}
    return name, {"state": True, "max_cycles": min(limit, _PETTINGZOO_LIMIT)}


def _env_args(given: dict[str, Any], known: Iterable[str]) -> dict[str, Any]:
    """Arguments of the environment, taken out of what is given."""
    found = {key.removeprefix("env_args."): given.pop(key) for key in list(given) if key.startswith("env_args.")}
    for key in found:
        if key not in known:
            raise _unknown("argument of the environment", f"env_args.{key}", [f"env_args.{name}" for name in known])
    return found


def _one_of(what: str, value: Any, known: Iterable[Any]) -> None:
    every = list(known)
    if value not in every:
        near = difflib.get_close_matches(str(value), [str(each) for each in every], 1, 0.5)
        remedy = f"Did you mean {near[0]!r}?" if near else ""
        got = "nothing" if value is None and what.startswith("--") else repr(value)
        raise OptionError(what, f"be one of {', '.join(map(str, every))}", got, remedy)


def _only(key: str, value: Any, values: Sequence[Any]) -> None:
    if value not in values:
        raise OptionError(key, f"be {' or '.join(map(repr, values))} here", repr(value))


def _unknown(what: str, name: str, known: Sequence[str]) -> OptionError:
    near = difflib.get_close_matches(name, known, 1, 0.5)
    remedy = f"Did you mean {near[0]!r}?" if near else ""
    return OptionError(what, "be one that PyMARL's configs have", repr(name), remedy)
