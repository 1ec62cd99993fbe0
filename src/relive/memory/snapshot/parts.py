"""Samplers and windows as plain data, and back."""

from __future__ import annotations

from dataclasses import asdict, fields
from functools import partial
from typing import Any

import numpy as np

from relive.errors import ReliveError
from relive.memory.hindsight import Hindsight, unsaved
from relive.memory.samplers import LinearSchedule, Prioritized, Recent, Sampler, Shuffled, Uniform
from relive.memory.snapshot.tensors import Tensor
from relive.memory.storage import Layout
from relive.memory.windows import Episodes, NStep, Sequence, Transition, Window

__all__ = ["STATE_HEADER", "sampler_from_plain", "state_tensors", "to_plain", "window_from_plain"]

STATE_HEADER = 4096
"""Bytes reserved for the header of a sampler's state, which is written after it."""

_SAMPLERS: dict[str, Any] = {kind.__name__: kind for kind in (Uniform, Prioritized, Shuffled, Recent)}
_WINDOWS: dict[str, Any] = {kind.__name__: kind for kind in (Transition, NStep, Sequence, Episodes, Hindsight)}


def to_plain(part: Sampler | Window) -> dict[str, Any]:
    """Kind, settings and the core's specification; the kind is None for a class of the caller's."""
    name = type(part).__name__
    unknown = {"kind": None, "spec": spec_of(part)}
    if type(part) not in (_SAMPLERS.get(name), _WINDOWS.get(name)):
        return unknown
    settings = {each.name: getattr(part, each.name) for each in fields(part)}  # type: ignore[arg-type]
    if isinstance(part, Hindsight):
        del settings["reward"], settings["terminated"]
    if isinstance(part, Prioritized) and callable(part.beta):
        if type(part.beta) is not LinearSchedule:
            return unknown
        settings["beta"] = {"kind": "LinearSchedule", **_plain(asdict(part.beta))}
    return {"kind": name, **_plain(settings), "spec": spec_of(part)}


def spec_of(part: Sampler | Window | None) -> list[Any] | None:
    """The core's specification of a sampler or window, as plain data."""
    return None if part is None else [_plain({"": value})[""] for value in part.spec()]


def _plain(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in settings.items()}


def state_tensors(sampler: Sampler, layout: Layout, count: int) -> dict[str, Tensor]:
    """The arrays in ``count`` bytes of a sampler's state."""
    if sampler.spec()[0] == "prioritized":
        return {"priorities": (np.dtype(np.float64), (layout.lanes, layout.span))}
    return {"order": (np.dtype(np.int64), (count // 24, 3))}


def sampler_from_plain(data: Any) -> Sampler | None:
    """The sampler; None if it has to be given again.

    Raises:
        ValueError: If the data describe none.
    """
    kind, settings = _settings(data, _SAMPLERS)
    beta = settings.get("beta")
    if isinstance(beta, dict):
        _, line = _settings(beta, {"LinearSchedule": LinearSchedule})
        settings["beta"] = _make(LinearSchedule, line)
    return None if kind is None else _make(kind, settings)


def window_from_plain(data: Any) -> Window | None:
    """The window; None if it has to be given again.

    Raises:
        ValueError: If the data describe none.
    """
    kind, settings = _settings(data, _WINDOWS)
    if "start_fields" in settings:
        fields = settings["start_fields"]
        if not isinstance(fields, list) or any(not isinstance(name, str) for name in fields):
            raise ValueError("start_fields are names")
        settings["start_fields"] = tuple(fields)
    if kind is Hindsight:
        kind = partial(Hindsight, _text(settings.pop("strategy", None)), reward=unsaved)
    return None if kind is None else _make(kind, settings)


def _text(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError("strategy is no name")
    return value


def _settings(data: Any, kinds: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    if not isinstance(data, dict) or "kind" not in data:
        raise ValueError("no kind")
    settings = dict(data)
    settings.pop("spec", None)
    name = settings.pop("kind")
    if name is None:
        return None, settings
    if not isinstance(name, str) or name not in kinds:
        raise ValueError(f"unknown kind {name!r:.60}")
    return kinds[name], settings


def _make(kind: Any, settings: dict[str, Any]) -> Any:
    for name, value in settings.items():
        if isinstance(value, (list, dict, str)):
            raise ValueError(f"{name} is no number")
    try:
        made = kind(**settings)
        made.spec() if hasattr(made, "spec") else made(0)
    except (TypeError, ReliveError, OverflowError) as error:
        raise ValueError(str(error)) from None
    return made
