"""Numbers of environments that are not finite."""

from __future__ import annotations

import numpy as np

import relive as rl
from refusals import refused
from relive.envs.checks import check_finite


def test_final_observations_and_states_too() -> None:
    env = rl.envs.make("simple_tag", num_envs=2)
    values = {"agent/final_obs": np.zeros((2, 1, 14), np.float32), "state": np.zeros((2, 5), np.float32)}
    values["agent/final_obs"][1, 0, 3] = np.nan
    with refused(rl.errors.EnvError, "agent/final_obs of agent_0 in environment 1 of simple_tag after 7 steps"):
        check_finite(env, values, 7)
    values["agent/final_obs"][:] = 0
    values["state"][1, 2] = -np.inf
    with refused(rl.errors.EnvError, "state of environment 1 of simple_tag after 7 steps"):
        check_finite(env, values, 7)
