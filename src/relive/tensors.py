"""The only door from a batch to torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, final

import numpy as np

from relive.errors import MissingExtra, OptionError
from relive.memory.batch import Nest, describe, flat, nested, sample_count
from relive.messages import brief

if TYPE_CHECKING:
    import torch

__all__ = ["TensorBatch", "from_env", "map_tensors", "to_torch"]

_ACTIONS = ("action", "actions")


@final
class TensorBatch(Nest):
    """A batch as tensors: a dict whose entries are also attributes."""

    __slots__ = ()

    if TYPE_CHECKING:  # for editors; what there is depends on schema and window
        obs: Any
        action: Any
        next_obs: Any
        reward: torch.Tensor
        discount: torch.Tensor
        terminated: torch.Tensor
        truncated: torch.Tensor
        weights: torch.Tensor
        mask: torch.Tensor
        lengths: torch.Tensor
        lanes: torch.Tensor
        serials: torch.Tensor

    @property
    def size(self) -> int:
        """The number of samples B, whatever the window."""
        return sample_count(self)

    def __repr__(self) -> str:
        return f"TensorBatch({', '.join(describe(key, value) for key, value in self.items())})"


def to_torch(
    batch: Mapping[str, Any],
    device: str | torch.device | None = None,
    *,
    pin: bool | None = None,
    non_blocking: bool = True,
) -> TensorBatch:
    """The batch as tensors, nested alike. On the CPU they share the batch's memory.

    Only integer actions are copied: they are stored in small dtypes and become int64, as ``gather``, ``one_hot`` and
    ``Embedding`` require. Actions are fields of that role. A plain dict, such as a part of a batch, knows no
    roles: its entries named ``action`` or ``actions`` are taken for actions.

    Other frameworks take the arrays themselves by DLPack: ``jax.dlpack.from_dlpack(batch.obs)``.

    Args:
        device: Where the tensors should be; None: the CPU.
        pin: Copy into page-locked memory first, so that a copy to a GPU can overlap with work; None: for CUDA.
        non_blocking: Do not wait for the copy of page-locked memory.
    """
    try:
        import torch
    except ModuleNotFoundError:
        raise MissingExtra("torch", "torch") from None

    if not isinstance(batch, Mapping):
        raise OptionError("batch", "be a batch, or a dict of arrays", type(batch).__name__)
    if pin is not None and not isinstance(pin, bool):
        raise OptionError("pin", "be True, False or None", brief(pin))
    try:
        place = None if device is None else torch.device(device)
    except (RuntimeError, TypeError):
        raise OptionError("device", "be a device of torch", brief(device), "Such as cpu, cuda or mps.") from None
    here = place is None or place.type == "cpu"
    if pin is None:
        pin = place is not None and place.type == "cuda"
    if pin and not torch.accelerator.is_available():
        raise OptionError("pin", "be False where torch finds no accelerator", pin)

    actions = getattr(batch, "action_keys", None)
    if actions is None:
        actions = {path for path, _ in flat(batch) if not set(path.split("/")).isdisjoint(_ACTIONS)}

    def convert(path: str, value: Any) -> Any:
        if isinstance(value, dict):
            return Nest({name: convert(f"{path}/{name}", inner) for name, inner in value.items()})
        if not isinstance(value, np.ndarray):
            return value
        tensor = torch.from_numpy(value.astype(np.int64) if path in actions and value.dtype.kind in "iu" else value)
        if pin:
            tensor = tensor.pin_memory()
        return tensor if here else tensor.to(place, non_blocking=non_blocking and pin)

    return TensorBatch({key: convert(key, value) for key, value in batch.items()})


def from_env(obs: Mapping[str, Any], device: str | torch.device | None = None) -> TensorBatch:
    """Observations by field names with slashes, as nested tensors; floats become float32, as in rows."""
    shown = {}
    for key, value in obs.items():
        array = np.asarray(value)
        shown[key] = np.ascontiguousarray(array, np.float32 if array.dtype.kind == "f" else array.dtype)
    return to_torch(nested(shown, frozenset()), device)


def map_tensors(f: Callable[[Any], Any], tree: Any) -> Any:
    """Apply a function to every tensor of a nested structure.

    >>> map_tensors(lambda x: x + 1, {"a": 1, "b": {"c": 2}})
    {'a': 2, 'b': {'c': 3}}
    """
    if isinstance(tree, dict):
        return type(tree)((key, map_tensors(f, inner)) for key, inner in tree.items())
    return f(tree)
