"""``relive pymarl``: PyMARL's command line, with its names of settings.

relive pymarl --config=qmix --env-config=sc2 with env_args.map_name=MarineMicro_MvsM_4 t_max=2050000
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from typing import Any

from relive import envs
from relive.cli.pymarl_words import CONFIGS, RUN, SWITCHES, Words, like, one_of, only, unknown
from relive.cli.train import notified_run
from relive.envs import particle
from relive.errors import OptionError
from relive.training import RunConfig

__all__ = ["pymarl"]

_USAGE = """\
usage: relive pymarl --config=NAME --env-config=NAME [with KEY=VALUE ...]

PyMARL's command line: --config is qmix, vdn, iql, mappo, ippo, maa2c, ia2c or coma; --env-config is sc2
(env_args.map_name=MarineMicro_MvsM_4, 3m, 8m, 5m_vs_6m, ...: marines) or gymma (env_args.key=mpe:SimpleSpread-v0, ...:
particle worlds).
After "with" come settings by PyMARL's names, such as t_max=2050000 lr=0.0005 env_args.map_name=8m."""

_ENVS = {
    "sc2": {"eval_every": 10_000, "eval_episodes": 32, "steps": 2_050_000},
    "gymma": {"eval_every": 50_000, "eval_episodes": 100, "steps": 2_050_000},
}
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
_GYMMA_ARGS = ("key", "time_limit", "pretrained_wrapper")
_GYMMA_LIMIT = 100  # of EPyMARL's gymma.yaml
_PETTINGZOO_LIMIT = 25  # of PettingZoo's own, which end there whatever EPyMARL says


def pymarl(arguments: Sequence[str]) -> int:
    """Run the command with these arguments; returns the exit code."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_USAGE)
        return 0 if arguments else 2
    names, given = _parted(arguments)
    env_config, config = names.get("env-config", "sc2"), names.get("config")
    one_of("--config", config, CONFIGS)
    one_of("--env-config", env_config, _ENVS)
    typed = dict(given)
    env, options = (_marines if env_config == "sc2" else _particles)(given)
    words = CONFIGS[str(config)]
    run: dict[str, Any] = {**_ENVS[env_config], "env_options": options}
    algorithm = words.begin(str(config), env_config, given, run, _longest(env, options))
    known = [*RUN, *words.keys, *words.special, *words.only, *SWITCHES, *words.nothing]
    for key, value in sorted(given.items(), key=lambda pair: words.order(pair[0])):
        if key in words.only:
            only(key, value, words.only[key])
        if key in RUN:
            run[RUN[key]] = like(key, value, getattr(RunConfig(), RUN[key]))
        elif key in words.keys:
            algorithm[words.keys[key]] = like(key, value, getattr(words.defaults, words.keys[key]))
        elif key in words.special:
            words.take(key, value, algorithm, run)
        elif key in SWITCHES:
            like(key, value, True)
        elif key not in (*words.only, *words.nothing):
            of_env = [f"env_args.{name}" for name in (_SC2_ARGS if env_config == "sc2" else _GYMMA_ARGS)]
            raise unknown("setting", key, [f"env_args.{key}"] if f"env_args.{key}" in of_env else known)
    try:
        return notified_run(words.finish(algorithm, given), env, RunConfig(**run))
    except OptionError as error:  # by the name that was typed
        problem = error.problem
        name = next((key for key in _names(words, problem.name) if key in typed), problem.name)
        raise OptionError(name, problem.rule, problem.got, problem.remedy) from None


def _names(words: Words, setting: str) -> list[str]:
    """PyMARL's keys of a setting."""
    every = {key: (name,) for key, name in {**RUN, **words.keys, "env_args.time_limit": "max_cycles"}.items()}
    return [key for key, settings in {**every, **words.special}.items() if setting in settings]


def _longest(env: str, options: dict[str, Any]) -> int:
    """Steps of the longest episode."""
    made = envs.make(env, **options)
    made.close()
    return int(made.max_episode_steps or _GYMMA_LIMIT)


def _parted(arguments: Sequence[str]) -> tuple[dict[str, str], dict[str, Any]]:
    """The flags, and the settings after ``with``."""
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
                raise unknown("flag", f"--{flag}", ["--config", "--env-config"])
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


def _marines(given: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The skirmish of a StarCraft map of marines."""
    arguments = _env_args(given, _SC2_ARGS)
    name = str(arguments.get("map_name", "3m"))
    sizes = re.fullmatch(r"(\d+)m(?:_vs_(\d+)m)?", name)
    if sizes is not None:
        name = f"marines_{sizes[1]}v{sizes[2] or sizes[1]}"
    elif not name.startswith(("marines_", "MarineMicro_")):
        real = f"relive train qmix pymarl:smac.env:StarCraft2Env --option map_name={name}"
        remedy = f"Other units are StarCraft's: `{real}` plays the real one."
        raise OptionError(
            "env_args.map_name", "be a map of marines, such as MarineMicro_MvsM_4 or 5m_vs_6m", name, remedy
        )
    for key, values in _SC2_ONLY.items():
        if key in arguments:
            only(f"env_args.{key}", arguments[key], values)
    envs.make(name).close()
    options = {}
    sparse, positive = (
        like(f"env_args.{key}", arguments.get(key, default), default)
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
    only("env_args.pretrained_wrapper", arguments.get("pretrained_wrapper"), (None,))
    limit = arguments.get("time_limit")
    limit = _GYMMA_LIMIT if limit is None else like("env_args.time_limit", limit, 1)
    if key.startswith("mpe:"):  # OpenAI's worlds
        first = {"squared": True} if name == "simple_adversary" else {}
        return name, {"state": True, "max_cycles": limit, "velocity_first": True, **first}
    return name, {"state": True, "max_cycles": min(limit, _PETTINGZOO_LIMIT)}


def _env_args(given: dict[str, Any], known: Iterable[str]) -> dict[str, Any]:
    """Arguments of the environment, taken out of what is given."""
    found = {key.removeprefix("env_args."): given.pop(key) for key in list(given) if key.startswith("env_args.")}
    for key in found:
        if key not in known:
            raise unknown("argument of the environment", f"env_args.{key}", [f"env_args.{name}" for name in known])
    return found
