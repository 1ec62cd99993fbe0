"""BenchMARL's MAPPO on VMAS: its experiment, without evaluation and loggers."""

from __future__ import annotations

import sys
import tempfile
import warnings
from typing import Any

import benchmarl.algorithms.mappo as theirs
import torch
from benchmarl.algorithms import MappoConfig
from benchmarl.environments import VmasTask
from benchmarl.experiment import Callback, Experiment, ExperimentConfig
from benchmarl.models.mlp import MlpConfig
from clock import Clock

LOSS = theirs.ClipPPOLoss


def renamed(*parts: Any, **options: Any) -> Any:
    """TorchRL's loss by the names that its newer versions have for two weights."""
    return LOSS(*parts, **{key.replace("_coef", "_coeff"): value for key, value in options.items()})


theirs.ClipPPOLoss = renamed
ENVS, ROLLOUT, EPOCHS, WARM = map(int, sys.argv[2:6])
FRAMES = ENVS * ROLLOUT
CLOCK = Clock(WARM)  # not the callback's own: an experiment saves its callbacks


class Ticking(Callback):
    """Tells the clock after every rollout that was learned from."""

    def on_train_end(self, training_td: Any, group: str) -> None:  # noqa: ARG002
        CLOCK.tick(FRAMES)


def main() -> None:
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    config = ExperimentConfig.get_from_yaml()
    config.share_policy_params = True
    config.prefer_continuous_actions = False
    config.on_policy_collected_frames_per_batch = FRAMES
    config.on_policy_n_envs_per_worker = ENVS
    config.on_policy_n_minibatch_iters = EPOCHS
    config.on_policy_minibatch_size = FRAMES
    config.evaluation = config.render = config.create_json = False
    config.loggers = []
    config.max_n_frames = 10**9
    config.save_folder = tempfile.mkdtemp()
    task = VmasTask.SIMPLE_SPREAD.get_from_yaml()
    task.config["max_steps"] = 25
    networks = MlpConfig(num_cells=[64, 64], layer_class=torch.nn.Linear, activation_class=torch.nn.ReLU)
    Experiment(
        task=task,
        algorithm_config=MappoConfig.get_from_yaml(),
        model_config=networks,
        critic_model_config=networks,
        seed=0,
        config=config,
        callbacks=[Ticking()],
    ).run()


main()
