"""The only door from a batch to torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from recollect.errors import MissingExtra, OptionError
from recollect.memory import Nest

if TYPE_CHECKING:
    import torch

__all__ = ["to_torch"]

_ACTION = frozenset({"action", "actions"})


def to_torch(
    batch: dict[str, Any], device: str | torch.device | None = None, *, pin: bool = False, non_blocking: bool = False
) -> Nest:
    """The batch as tensors, nested alike. On the CPU they share the batch's memory.

    Whole-numbered actions alone are copied: they are stored small, and come as int64, so that ``gather``, ``one_hot``
    and ``Embedding`` take them. Actions are entries with ``action`` as a word of their name, such as ``last_action``.

    Other frameworks take the arrays themselves by DLPack: ``jax.dlpack.from_dlpack(batch.obs)``.

    Args:
        device: Where the tensors should be; None: the CPU.
        pin: Copy into page-locked memory first, so that a copy to a GPU can overlap with work.
        non_blocking: Do not wait for the copy to the device.
    """
    try:
        import torch
    except ModuleNotFoundError:
        raise MissingExtra("torch", "torch") from None

    if pin and not torch.accelerator.is_available():
        raise OptionError("pin", "be False where torch finds no accelerator", pin)

    def convert(key: str, value: Any, is_action: bool) -> Any:
        is_action = is_action or not _ACTION.isdisjoint(key.split("_"))
        if isinstance(value, dict):
            return Nest({name: convert(name, inner, is_action) for name, inner in value.items()})
        if not isinstance(value, np.ndarray):
            return value
        tensor = torch.from_numpy(value.astype(np.int64) if is_action and value.dtype.kind in "iu" else value)
        if pin:
            tensor = tensor.pin_memory()
        return tensor if device is None else tensor.to(device, non_blocking=non_blocking)

    return Nest({key: convert(key, value, False) for key, value in batch.items()})
