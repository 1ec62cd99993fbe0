"""Schemes: what PyMARL says of the values of a step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, final

import torch

from relive.errors import NotEnoughRows, OptionError

__all__ = ["Preprocess", "Scheme", "SchemeProblem", "TooFew", "UnknownName", "completed", "shape_of", "type_of"]

Scheme: TypeAlias = dict[str, dict[str, Any]]
Preprocess: TypeAlias = Mapping[str, tuple[str, list[Any]]]


@final
class SchemeProblem(OptionError, AssertionError):
    """A scheme that breaks a rule; PyMARL asserts it."""


@final
class TooFew(NotEnoughRows, AssertionError):
    """Fewer episodes than a batch needs; PyMARL asserts it."""


@final
class UnknownName(KeyError, ValueError):
    """A name that the scheme does not have."""

    def __str__(self) -> str:
        return str(self.args[0])


def completed(scheme: Mapping[str, Any], groups: Mapping[str, int], preprocess: Preprocess) -> Scheme:
    """The scheme with what is made from its values, and ``filled``."""
    if "filled" in scheme:
        raise SchemeProblem("scheme", "leave filled to the batch", "it", "Choose another name.")
    whole: Scheme = dict(scheme)
    for source, (made, transforms) in preprocess.items():
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
        if "vshape" not in about:
            raise SchemeProblem(f"scheme[{name!r}]", "have a vshape", about)
        if about.get("group") is not None and about["group"] not in groups:
            raise SchemeProblem("groups", f"have the group of {name}, {about['group']!r}", ", ".join(groups) or "none")
    return whole


def shape_of(about: Mapping[str, Any], groups: Mapping[str, int]) -> tuple[int, ...]:
    """Shape of one value."""
    vshape = about["vshape"]
    shape = (vshape,) if isinstance(vshape, int) else tuple(vshape)
    return (groups[about["group"]], *shape) if about.get("group") else shape


def type_of(about: Mapping[str, Any]) -> torch.dtype:
    """Dtype of a value."""
    dtype = about.get("dtype", torch.float32)
    if not isinstance(dtype, torch.dtype):
        raise OptionError("dtype", "be a torch dtype", repr(dtype))
    return dtype
