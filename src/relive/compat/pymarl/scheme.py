"""Schemes: what PyMARL says of the values of a step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, final

import torch

from relive.compat.checks import at_least
from relive.errors import NotEnoughRows, OptionError
from relive.messages import brief

__all__ = [
    "Preprocess",
    "Scheme",
    "SchemeProblem",
    "TooFew",
    "UnknownName",
    "completed",
    "device_of",
    "shape_of",
    "type_of",
]

Scheme: TypeAlias = dict[str, dict[str, Any]]
Preprocess: TypeAlias = Mapping[str, tuple[str, list[Any]]]


@final
class SchemeProblem(OptionError, AssertionError):
    """A scheme that breaks a rule; PyMARL asserts it."""


@final
class TooFew(NotEnoughRows, AssertionError):
    """Fewer episodes than a batch needs; PyMARL asserts it."""


@final
class UnknownName(OptionError, KeyError):
    """A name that the scheme does not have."""

    def __str__(self) -> str:
        return str(self.problem)  # KeyError would show it in quotes


def completed(scheme: Mapping[str, Any], groups: Mapping[str, int], preprocess: Preprocess) -> Scheme:
    """The scheme with what is made from its values, and ``filled``."""
    for name, value in (("scheme", scheme), ("groups", groups), ("preprocess", preprocess)):
        if not isinstance(value, Mapping):
            raise SchemeProblem(name, "be a dict", brief(value))
    for name, about in scheme.items():
        if not isinstance(about, Mapping) or "vshape" not in about:
            raise SchemeProblem(f"scheme[{name!r}]", "have a vshape", brief(about))
    if "filled" in scheme:
        raise SchemeProblem("scheme", "leave filled to the batch", "it", "Choose another name.")
    whole: Scheme = dict(scheme)
    for source, recipe in preprocess.items():
        if not isinstance(recipe, (tuple, list)) or len(recipe) != 2 or not isinstance(recipe[1], (tuple, list)):
            raise SchemeProblem(f"preprocess[{source!r}]", "be a name and a list of transforms", brief(recipe))
        made, transforms = recipe
        if source not in scheme:
            raise SchemeProblem("preprocess", f"name values of the scheme ({', '.join(scheme)})", repr(source))
        about = scheme[source]
        vshape, dtype = about["vshape"], about.get("dtype", torch.float32)
        for transform in transforms:
            vshape, dtype = transform.infer_output_info(vshape, dtype)
        whole[made] = {"vshape": vshape, "dtype": dtype}
        for key in ("group", "episode_const"):
            if key in about:
                whole[made][key] = about[key]
    whole["filled"] = {"vshape": (1,), "dtype": torch.long}
    for name, about in whole.items():
        if about.get("group") is not None and about["group"] not in groups:
            raise SchemeProblem("groups", f"have the group of {name}, {about['group']!r}", ", ".join(groups) or "none")
    return whole


def shape_of(about: Mapping[str, Any], groups: Mapping[str, int]) -> tuple[int, ...]:
    """Shape of one value."""
    vshape = about["vshape"]
    shape = vshape if isinstance(vshape, (tuple, list)) else (vshape,)
    whole = (groups[about["group"]], *shape) if about.get("group") else tuple(shape)
    return tuple(at_least("vshape", n, 0) for n in whole)


def device_of(device: Any) -> Any:
    """The device as it was given, if it is one."""
    try:
        torch.device(device)
    except (RuntimeError, TypeError, ValueError) as error:
        raise OptionError("device", "be a device of PyTorch", brief(device), str(error).partition("\n")[0]) from None
    return device


def type_of(about: Mapping[str, Any]) -> torch.dtype:
    """Dtype of a value."""
    dtype = about.get("dtype", torch.float32)
    if not isinstance(dtype, torch.dtype):
        raise OptionError("dtype", "be a torch dtype", repr(dtype))
    return dtype
