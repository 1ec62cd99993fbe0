"""Export of policies: ONNX, ``torch.export``, and weights of single agents."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load, save
from torch import Tensor, nn

from relive.agents.interface import Exports, Learner
from relive.atomic_files import atomic_write
from relive.envs.interface import AgentGroup
from relive.errors import MissingExtra, OptionError, RunError
from relive.learn import kernels

__all__ = ["example_inputs", "load_agents", "save_agents", "to_onnx", "to_torch_export"]

_TOLERANCE = 1e-5


def exporting(learner: Learner) -> Exports:
    """The learner, if its policies can be exported."""
    if not isinstance(learner, Exports):
        raise OptionError("algorithm", "have a policy_module to be exported", type(learner).__name__)
    return learner


def example_inputs(module: Any, num_envs: int, seed: int = 0) -> tuple[Tensor, ...]:
    """Example inputs: random observations, zero last actions, full action masks."""
    random = torch.Generator().manual_seed(seed)
    made = []
    for name, (shape, dtype) in module.inputs.items():
        size = (num_envs, *shape)
        if dtype.is_floating_point:
            made.append(torch.randn(size, generator=random, dtype=dtype))
        elif dtype is torch.bool:
            made.append(torch.ones(size, dtype=dtype))
        elif name.split("/")[-1] == "last_action":
            made.append(torch.full(size, -1, dtype=dtype))
        else:
            made.append(torch.randint(0, 2, size, generator=random).to(dtype))
    return tuple(made)


def to_onnx(learner: Learner, path: Path) -> Path:
    """Write the policy as ONNX with a dynamic batch axis, verified with onnxruntime."""
    try:
        import onnxruntime  # type: ignore[import-untyped]
        import onnxscript  # noqa: F401 - torch's exporter needs it
    except ImportError:
        raise MissingExtra("onnxruntime and onnxscript", "onnx") from None
    module = _ready(learner)
    inputs = example_inputs(module, 2)
    path.parent.mkdir(parents=True, exist_ok=True)
    with kernels.used(False), _quiet():
        program = torch.onnx.export(
            module,
            inputs,
            input_names=[_plain(name) for name in module.inputs],
            output_names=[_plain(name) for name in module.outputs],
            dynamic_shapes=(_dynamic(module),),
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    program.save(str(path))
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for num_envs in (1, 5):
        given = example_inputs(module, num_envs, seed=num_envs)
        fed = {_plain(name): value.numpy() for name, value in zip(module.inputs, given, strict=True)}
        known = {each.name for each in session.get_inputs()}
        found = session.run(None, {name: value for name, value in fed.items() if name in known})
        with torch.no_grad():
            expected = module(*given)
        for name, one, two in zip(module.outputs, expected, found, strict=True):
            if one.shape != two.shape or not np.allclose(one.numpy(), two, atol=_TOLERANCE):
                raise RunError(str(path), f"compute what the policy does ({name})", "other values")
    return path


def to_torch_export(learner: Learner, path: Path) -> Path:
    """Write the policy as a ``torch.export`` program with a dynamic batch axis."""
    module = _ready(learner)
    with kernels.used(False):
        program = torch.export.export(module, example_inputs(module, 2), dynamic_shapes=(_dynamic(module),))
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.export.save(program, str(path))
    return path


def save_agents(learner: Learner, groups: tuple[AgentGroup, ...], folder: Path) -> list[Path]:
    """Write every agent's weights to ``<agent>/actor.safetensors``; with parameter sharing they are equal."""
    modules, written = exporting(learner).agent_modules(), []
    for group in groups:
        state = modules[group.name].state_dict()
        for place, agent in enumerate(group.agents):
            own = {name: value[_mine(name, value, place, group)].clone() for name, value in state.items()}
            path = folder / agent / "actor.safetensors"
            path.parent.mkdir(parents=True, exist_ok=True)
            atomic_write(path, save({name: value.contiguous().cpu() for name, value in own.items()}))
            written.append(path)
    return written


def load_agents(learner: Learner, groups: tuple[AgentGroup, ...], folder: Path) -> None:
    """Load weights written by ``save_agents``, of all agents or some; others stay as they are."""
    modules = exporting(learner).agent_modules()
    for group in groups:
        module = modules[group.name]
        state: dict[str, Tensor] = {name: value.clone() for name, value in module.state_dict().items()}
        shared: dict[str, Tensor] = {}
        for place, agent in enumerate(group.agents):
            path = folder / agent / "actor.safetensors"
            if path.exists():
                _put_in(state, shared, _read(path, state), place, group, agent)
        module.load_state_dict(state)


def _put_in(
    state: dict[str, Tensor], shared: dict[str, Tensor], own: Mapping[str, Tensor], place: int, group: Any, agent: str
) -> None:
    for name, value in own.items():
        where = _mine(name, state[name], place, group)
        if state[name].shape[0] == 1 < len(group):
            known = shared.setdefault(name, value)
            if not torch.equal(known, value):
                raise RunError(f"{name} of {agent}", "be that of all agents, who share their networks", "another")
        if state[name][where].shape != value.shape:
            raise RunError(f"{name} of {agent}", f"have shape {list(state[name][where].shape)}", list(value.shape))
        state[name][where] = value


def _read(path: Path, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    try:
        found = load(path.read_bytes())
    except Exception as error:
        raise RunError(str(path), "hold weights", error) from None
    if found.keys() != state.keys():
        raise RunError(str(path), f"have {', '.join(state)}", ", ".join(found))
    return found


def _mine(name: str, value: Tensor, place: int, group: AgentGroup) -> Any:
    """The index of an agent's part of a tensor; stacked networks have the agent axis first."""
    if group.alone:
        return ...
    if value.shape[0] not in (1, len(group)):
        raise RunError(name, "have the agents first to be written for each", list(value.shape))
    return place if value.shape[0] == len(group) else 0


def _ready(learner: Learner) -> Any:
    module: nn.Module = exporting(learner).policy_module().cpu().eval()
    return module.requires_grad_(False)


def _dynamic(module: Any) -> tuple[Any, ...]:
    envs = torch.export.Dim("envs")
    return tuple({0: envs} for _ in module.inputs)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """A context that silences torch's exporter."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)


def _plain(name: str) -> str:
    return name.replace("/", "_")
