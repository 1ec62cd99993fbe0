"""Custom networks, encoders and losses: a function given in Python, or named as ``package.module:function``."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from relive.errors import OptionError

__all__ = ["GIVEN", "NetworkFactory", "custom_network", "name_of", "named_module", "resolve", "tried"]

GIVEN = "(given in Python)"
"""What files say of a function that has no importable name."""

NetworkFactory = Callable[[int, int], nn.Module]
"""Makes a network ``[B, n]`` to ``[B, out]``, called with the widths of input and output."""


def resolve(what: str, value: Any, known: Mapping[str, Any]) -> Any:
    """The value of a setting: a known name's, one imported by name, or the function given.

    Args:
        what: The setting's name.
        known: Built-in values by name.
    """
    if not isinstance(value, str):
        if not callable(value):
            raise OptionError(what, f"be {_names(known)}, package.module:function, or a function", repr(value))
        return value
    if value in known:
        return known[value]
    if value == GIVEN:
        remedy = f"Pass it again: {what}=..."
        raise OptionError(what, "be given again, since it has no name to import it by", repr(value), remedy)
    module, colon, name = value.partition(":")
    if not colon or not module or not name:
        raise OptionError(what, f"be {_names(known)}, or package.module:function", repr(value))
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise OptionError(what, "name something that can be imported", repr(value), str(error)) from None
    if not callable(found):
        raise OptionError(what, "name a function or a class", repr(value))
    return found


def named_module(value: object) -> str:
    """The module that resolving a setting imports; empty if none."""
    return value.partition(":")[0] if isinstance(value, str) and ":" in value else ""


def name_of(value: Callable[..., Any]) -> str:
    """The importable name of a function, for ``resolve``; empty if it has none."""
    module, name = getattr(value, "__module__", ""), getattr(value, "__qualname__", "")
    try:
        found = resolve("name", f"{module}:{name}", {}) if module != "__main__" else None
    except OptionError:
        return ""
    return f"{module}:{name}" if found is value else ""


def custom_network(make: NetworkFactory, inputs: int, outputs: int) -> nn.Module:
    """A custom network, refused here if it does not take or give what it should; recurrent ones are not tried."""
    made, rule = make(inputs, outputs), f"map [B, {inputs}] to [B, {outputs}]"
    if getattr(made, "state_size", 0):
        return made
    found = tried("network", rule, made, torch.zeros(2, inputs))
    if not isinstance(found, Tensor) or found.shape != (2, outputs):
        given = list(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise OptionError("network", rule, f"{given} for two rows", f"It was made for ({inputs}, {outputs}).")
    return made


def tried(what: str, rule: str, module: nn.Module, example: Any) -> Any:
    """What a custom module gives for an example, as in evaluation.

    Args:
        what: The setting's name.
        rule: Said where it gives nothing.
    """
    if not isinstance(module, nn.Module):
        raise OptionError(what, "be a function that returns a torch module", type(module).__name__)
    modes = [(part, part.training) for part in module.modules()]
    try:
        with torch.no_grad():
            return module.eval()(example)
    except Exception as error:
        raise OptionError(what, rule, f"{type(error).__name__}: {error}") from error
    finally:
        for part, training in modes:
            part.training = training


def _names(known: Mapping[str, Any]) -> str:
    return ", ".join(known)
