"""Evaluations on a Ray cluster, beside learning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from relive.agents.interface import Algorithm
from relive.distributed.ray_start import import_ray
from relive.learn import kernels
from relive.training.environments import make_env
from relive.training.evaluate import evaluate
from relive.training.settings import RunConfig
from relive.training.trust import import_modules

__all__ = ["RemoteEvaluation"]


@final
class _Evaluator:
    """Evaluates in a process of its own."""

    def __init__(self, env: str, algorithm: Algorithm, run: RunConfig) -> None:
        torch.set_num_threads(1)
        import_modules(run.imports)
        kernels.use(run.kernels)
        self._env = make_env(algorithm, env, run.eval_episodes, run.env_options)
        self._learner = algorithm.learner(self._env, device="cpu", seed=0)

    def evaluate(self, state: bytes, seed: int, longest: int) -> dict[str, float] | None:
        """Mean metrics of a learner's policy over episodes."""
        self._learner.load_state_dict(load_tensors(state))
        return evaluate(self._learner, self._env, seed, longest)


@final
class RemoteEvaluation:
    """Evaluations beside learning, one at a time."""

    def __init__(self, env: str, algorithm: Algorithm, run: RunConfig) -> None:
        self._parts = (env, algorithm, run)
        self._handle: Any = None
        self._call: Any = None
        self._again: tuple[Any, ...] = ()

    def begin(self, state: Mapping[str, Any], seed: int, longest: int) -> None:
        """Start to evaluate a learner's current state."""
        data = save_tensors({name: value.detach().cpu().contiguous() for name, value in state.items()})
        self._again = (data, seed, longest)
        self._ask()

    @property
    def going(self) -> bool:
        """Whether an evaluation is in progress."""
        return self._call is not None

    def take(self, *, wait: bool) -> dict[str, float] | None:
        """The metrics, if the evaluation is done."""
        ray = import_ray()
        while self._call is not None:
            done, _ = ray.wait([self._call], timeout=1.0 if wait else 0)
            if not done:
                if not wait:
                    return None
                continue
            call, self._call = self._call, None
            try:
                return dict(ray.get(call))
            except ray.exceptions.RayActorError:  # killed: once more, elsewhere
                self._handle = None
                self._ask()
        return None

    def close(self) -> None:
        """End its process."""
        if self._handle is not None and import_ray().is_initialized():
            import_ray().kill(self._handle)
            self._handle = None

    def _ask(self) -> None:
        if self._handle is None:
            self._handle = import_ray().remote(_Evaluator).options(num_cpus=0).remote(*self._parts)
        self._call = self._handle.evaluate.remote(*self._again)
