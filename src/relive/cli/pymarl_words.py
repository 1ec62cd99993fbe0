"""Translation of PyMARL's, EPyMARL's and PyMARL2's keys to settings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, final

from relive.agents.coma import COMAConfig
from relive.agents.mappo import MAPPOConfig
from relive.agents.qmix import QMIXConfig
from relive.agents.registry import find
from relive.errors import OptionError
from relive.messages import did_you_mean

__all__ = ["CONFIGS", "RUN", "SWITCHES", "Words", "like", "one_of", "only", "unknown"]

RUN = {
    "t_max": "steps",
    "seed": "seed",
    "test_interval": "eval_every",
    "test_nepisode": "eval_episodes",
    "save_model_interval": "save_every",
}
SWITCHES = ("use_cuda", "buffer_cpu_only", "use_tensorboard", "save_model", "use_wandb", "wandb_save_model")
_ONLY: dict[str, tuple[Any, ...]] = {
    "agent": ("rnn", "n_rnn"),
    "mac": ("basic_mac", "n_mac"),
    "runner": ("episode", "parallel"),
    "optim_alpha": (0.99,),
    "test_greedy": (True,),
    "standardise_returns": (False,),
    "evaluate": (False,),
    "checkpoint_path": ("", None),
    "save_replay": (False,),
    "render": (False,),
    "add_value_last_step": (True,),
    "use_layer_norm": (False,),
    "use_orthogonal": (False,),
    "reward_scalarisation": ("sum", "mean"),
    "hypergroup": (None,),
}
_NOTHING = (
    *("local_results_path", "load_step", "name", "label", "repeat_id", "env", "run", "gain"),
    *("log_interval", "runner_log_interval", "learner_log_interval"),
    *("wandb_team", "wandb_project", "wandb_mode"),
)
"""Keys without effect here: logging, saving and devices are set otherwise."""
_KINDS: dict[type, str] = {bool: "True or False", int: "a whole number", float: "a number", str: "a word"}


class Words(ABC):
    """The keys of a family of algorithms."""

    defaults: ClassVar[Any]
    keys: ClassVar[Mapping[str, str]]
    """Keys that are a setting of the same meaning."""
    special: ClassVar[Mapping[str, tuple[str, ...]]]
    """Keys that become several settings or another kind, processed in this order, with their defaults."""
    only: ClassVar[Mapping[str, tuple[Any, ...]]]
    """Keys with a single supported value."""
    nothing: ClassVar[tuple[str, ...]]
    """Keys without effect here."""

    @abstractmethod
    def begin(
        self, config: str, env_config: str, given: dict[str, Any], run: dict[str, Any], longest: int
    ) -> dict[str, Any]:
        """Settings before any key.

        Args:
            config: What --config names.
            longest: Steps of the longest episode.
        """

    @abstractmethod
    def take(self, key: str, value: Any, algorithm: dict[str, Any], run: dict[str, Any]) -> None:
        """A key that means several settings."""

    @abstractmethod
    def finish(self, algorithm: dict[str, Any], given: Mapping[str, Any]) -> Any:
        """The algorithm of these settings."""

    def order(self, key: str) -> int:
        """Where a key comes: special ones after the others, in their order."""
        return list(self.special).index(key) if key in self.special else -1


@final
class _QLearning(Words):
    """QMIX, VDN and IQL."""

    defaults = QMIXConfig()
    mixers: ClassVar[dict[Any, Any]] = {"qmix": "qmix", "vdn": "vdn", "iql": "none", None: "none"}
    keys: ClassVar[Mapping[str, str]] = {
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
    special: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "batch_size": ("batch_size", "learning_starts"),
        "batch_size_run": ("num_envs", "update_every"),
        "mixer": ("mixer",),
        "hypernet_layers": ("hypernet_units",),
        "target_update_interval_or_tau": ("target_update_interval", "tau"),
        "common_reward": ("reward",),
    }
    only: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        **_ONLY,
        "agent_output_type": ("q",),
        "action_selector": ("epsilon_greedy",),
        "learner": ("q_learner", "nq_learner"),
        "evaluation_epsilon": (0.0, 0),
        "q_lambda": (False,),
        "obs_individual_obs": (False,),
        "use_per": (False,),
        "return_priority": (False,),
    }
    nothing = (*_NOTHING, "critic_lr", "per_alpha", "per_beta")

    def begin(
        self, config: str, env_config: str, given: dict[str, Any], run: dict[str, Any], longest: int
    ) -> dict[str, Any]:
        """PyMARL's settings for StarCraft, EPyMARL's elsewhere."""
        del run, longest
        if env_config == "gymma" and "target_update_interval" not in given:
            given.setdefault("target_update_interval_or_tau", 200)
        mixer = self.mixers[config]
        return {**QMIXConfig(mixer=mixer).presets["pymarl" if env_config == "sc2" else "epymarl"], "mixer": mixer}

    def take(self, key: str, value: Any, algorithm: dict[str, Any], run: dict[str, Any]) -> None:
        """A key that means several settings."""
        if key == "batch_size":
            algorithm |= dict.fromkeys(("batch_size", "learning_starts"), like(key, value, 32))
        elif key == "batch_size_run":  # one update for each round of parallel episodes
            run["num_envs"] = algorithm["update_every"] = like(key, value, 1)
        elif key == "mixer":
            one_of(key, value, self.mixers)
            algorithm["mixer"] = self.mixers[value]
        elif key == "hypernet_layers":
            one_of(key, value, (1, 2))
            if value == 1:
                algorithm["hypernet_units"] = 0
        elif key == "target_update_interval_or_tau":
            _interval_or_tau(value, algorithm, algorithm.get("update_every", 1))  # EPyMARL counts updates
        elif not like(key, value, True):  # common_reward
            if algorithm["mixer"] != "none":
                raise OptionError(key, "be True where values are mixed", repr(value), "Use --config=iql.")
            algorithm["reward"] = "own"

    def finish(self, algorithm: dict[str, Any], given: Mapping[str, Any]) -> Any:
        """The algorithm of these settings."""
        if algorithm.get("optimizer", "adam") == "adam" and "optim_eps" not in given:
            algorithm["eps"] = 0.0
        return QMIXConfig(**algorithm)


class _PolicyGradient(Words):
    """EPyMARL's on-policy learners: as many parallel episodes as an update uses."""

    only: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        **_ONLY,
        "agent_output_type": ("pi_logits",),
        "action_selector": ("soft_policies",),
        "mask_before_softmax": (True,),
        "obs_agent_id": (True,),
        "obs_last_action": (False,),
    }
    keys: ClassVar[Mapping[str, str]] = {
        "gamma": "gamma",
        "grad_norm_clip": "max_grad_norm",
        "use_rnn": "recurrent",
        "standardise_rewards": "standardize_reward",
        "reward_scalarisation": "reward",
        "entropy_coef": "entropy",
        "q_nstep": "n_step",
    }
    special: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "lr": ("actor_lr", "critic_lr"),
        "hidden_dim": ("hidden",),
        "batch_size_run": ("num_envs",),
        "batch_size": (),
        "buffer_size": (),
        "target_update_interval_or_tau": ("target_tau", "tau", "target_update_interval"),
        "common_reward": ("reward",),
        "obs_individual_obs": ("critic",),
    }
    nothing = (*_NOTHING, "optim_eps")

    def begin(
        self, config: str, env_config: str, given: dict[str, Any], run: dict[str, Any], longest: int
    ) -> dict[str, Any]:
        """EPyMARL's settings: ten episodes an update."""
        del env_config, given
        run["num_envs"] = 10
        preset = dict(find(config).presets["epymarl"])
        return {"config": config, **preset, "rollout": longest}

    def take(self, key: str, value: Any, algorithm: dict[str, Any], run: dict[str, Any]) -> None:
        """A key that means several settings."""
        if key == "lr":
            algorithm |= dict.fromkeys(("actor_lr", "critic_lr"), like(key, value, 1.0))
        elif key == "hidden_dim":
            algorithm["hidden"] = (like(key, value, 1),) * 2
        elif key == "batch_size_run":
            run["num_envs"] = like(key, value, 1)
        elif key in ("batch_size", "buffer_size"):
            if like(key, value, 1) != run["num_envs"]:
                raise OptionError(key, f"be the {run['num_envs']} of batch_size_run", value)
        elif key == "target_update_interval_or_tau":
            self.targets(key, value, algorithm)
        elif key == "common_reward":
            if not like(key, value, True):
                self.own_reward(key, algorithm)
        elif like(key, value, True):  # obs_individual_obs
            self.own_obs(algorithm)

    @abstractmethod
    def targets(self, key: str, value: Any, algorithm: dict[str, Any]) -> None:
        """The update of target critics."""

    @abstractmethod
    def own_reward(self, key: str, algorithm: dict[str, Any]) -> None:
        """Learn from per-agent rewards."""

    @abstractmethod
    def own_obs(self, algorithm: dict[str, Any]) -> None:
        """Critics read their agent's observation too."""


@final
class _PPO(_PolicyGradient):
    """MAPPO, IPPO, MAA2C and IA2C."""

    defaults = MAPPOConfig()
    keys: ClassVar[Mapping[str, str]] = {**_PolicyGradient.keys, "epochs": "epochs", "eps_clip": "clip"}
    only: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        **_PolicyGradient.only,
        "learner": ("ppo_learner", "actor_critic_learner"),
        "critic_type": ("cv_critic", "ac_critic"),
    }

    def targets(self, key: str, value: Any, algorithm: dict[str, Any]) -> None:
        """Softly."""
        algorithm["target_tau"] = like(key, value, 1.0)
        if not 0 < algorithm["target_tau"] <= 1:
            raise OptionError(
                key, "be above 0 and at most 1 here", repr(value), "Target critics are updated softly (tau)."
            )

    def own_reward(self, key: str, algorithm: dict[str, Any]) -> None:
        """Learn from per-agent rewards."""
        del key
        algorithm["reward"] = "own"

    def own_obs(self, algorithm: dict[str, Any]) -> None:
        """Central critics read their agent's observation too."""
        if algorithm["config"] in ("mappo", "maa2c"):
            algorithm["critic"] = "agent"

    def finish(self, algorithm: dict[str, Any], given: Mapping[str, Any]) -> Any:
        """The algorithm of these settings."""
        config = algorithm.pop("config")
        base = {"critic": find(config).critic, "clip": find(config).clip, "epochs": find(config).epochs}
        critics = {"mappo": "cv_critic", "maa2c": "cv_critic", "ippo": "ac_critic", "ia2c": "ac_critic"}
        learners = {True: "ppo_learner", False: "actor_critic_learner"}
        if "critic_type" in given:
            only("critic_type", given["critic_type"], (critics[config],))
        if "learner" in given:
            only("learner", given["learner"], (learners[config.endswith("ppo")],))
        return MAPPOConfig(**{**base, **algorithm})


@final
class _COMA(_PolicyGradient):
    """COMA."""

    defaults = COMAConfig()
    keys: ClassVar[Mapping[str, str]] = {**_PolicyGradient.keys, "critic_train_reps": "critic_epochs"}
    only: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        **_PolicyGradient.only,
        "learner": ("coma_learner",),
        "critic_type": ("coma_critic",),
        "critic_q_fn": ("coma",),
        "critic_baseline_fn": ("coma",),
        "critic_train_mode": ("seq",),
    }

    def targets(self, key: str, value: Any, algorithm: dict[str, Any]) -> None:
        """Soft (tau), or hard at an interval."""
        del key
        _interval_or_tau(value, algorithm, 1)

    def own_reward(self, key: str, algorithm: dict[str, Any]) -> None:
        """Not in a team."""
        del algorithm
        raise OptionError(key, "be True for coma", "False", "Use --config=ia2c.")

    def own_obs(self, algorithm: dict[str, Any]) -> None:
        """They do already."""

    def finish(self, algorithm: dict[str, Any], given: Mapping[str, Any]) -> Any:
        """The algorithm of these settings."""
        del given
        del algorithm["config"]
        return COMAConfig(**algorithm)


CONFIGS: dict[str, Words] = {
    **dict.fromkeys(("qmix", "vdn", "iql"), _QLearning()),
    **dict.fromkeys(("mappo", "ippo", "maa2c", "ia2c"), _PPO()),
    "coma": _COMA(),
}
"""The keys that go with each --config."""


def _interval_or_tau(value: Any, algorithm: dict[str, Any], updates: float) -> None:
    """Hard target updates at an interval (values above 1), or soft ones with tau."""
    key = "target_update_interval_or_tau"
    if isinstance(value, (int, float)) and value > 1:
        algorithm["target_update_interval"] = like(key, value, 1) * updates
        return
    algorithm["tau"] = like(key, value, 1.0)
    if algorithm["tau"] == 0:
        raise OptionError(key, "be above 0", repr(value), "Targets would never move.")


def like(key: str, value: Any, default: Any) -> Any:
    """A value of the default's type."""
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


def one_of(what: str, value: Any, known: Iterable[Any]) -> None:
    """Refuse unknown values."""
    every = list(known)
    if value not in every:
        remedy = did_you_mean(value, every)
        got = "nothing" if value is None and what.startswith("--") else repr(value)
        raise OptionError(what, f"be one of {', '.join(map(str, every))}", got, remedy)


def only(key: str, value: Any, values: Sequence[Any]) -> None:
    """Refuse unsupported values."""
    if value not in values:
        raise OptionError(key, f"be {' or '.join(map(repr, values))} here", repr(value))


def unknown(what: str, name: str, known: Sequence[str]) -> OptionError:
    """The error of an unknown name."""
    remedy = did_you_mean(name, known)
    return OptionError(what, "be one that PyMARL's configs have", repr(name), remedy)
