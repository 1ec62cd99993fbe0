"""BenchMARL on VMAS: its experiment, without evaluation and loggers."""

from __future__ import annotations

import tempfile
import warnings
from typing import Any

import torch
from benchmarl.algorithms import MaddpgConfig
from benchmarl.environments import VmasTask
from benchmarl.experiment import Callback, Experiment, ExperimentConfig
from benchmarl.models.mlp import MlpConfig
from clock import Clock, arguments

ASKED = arguments()
FRAMES = 10 * ASKED["envs"]
CLOCK = Clock(ASKED["warm"])  # not the callback's own: an experiment saves its callbacks


class Ticking(Callback):
    """Tells the clock after every round of updates."""

    def on_train_end(self, training_td: Any, group: str) -> None:  # noqa: ARG002
        CLOCK.tick(FRAMES)


def main() -> None:
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    asked = ASKED
    config = ExperimentConfig.get_from_yaml()
    config.share_policy_params = False
    config.off_policy_collected_frames_per_batch = FRAMES
    config.off_policy_n_envs_per_worker = asked["envs"]
    config.off_policy_n_optimizer_steps = FRAMES // asked["every"]
    config.off_policy_train_batch_size = asked["batch"]
    config.off_policy_memory_size = 200_000
    config.evaluation = config.render = config.create_json = False
    config.loggers = []
    config.max_n_frames = 10**9
    config.save_folder = tempfile.mkdtemp()
    algorithm = MaddpgConfig.get_from_yaml()
    algorithm.share_param_critic = False
    task = VmasTask.SIMPLE_SPREAD.get_from_yaml()
    task.config["max_steps"] = 25
    networks = MlpConfig(num_cells=[64, 64], layer_class=torch.nn.Linear, activation_class=torch.nn.ReLU)
    Experiment(
        task=task,
        algorithm_config=algorithm,
        model_config=networks,
        critic_model_config=networks,
        seed=0,
        config=config,
        callbacks=[Ticking()],
    ).run()


main()
