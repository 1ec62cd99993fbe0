"""The live view of a memory as plain data: a summary, its episodes, one episode, one row."""

from __future__ import annotations

import base64
import contextlib
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias, final

import numpy as np

from relive.errors import OptionError, ReliveError, StorageError
from relive.live.png import encode_png
from relive.memory import Memory, Prioritized, Rollout
from relive.memory.batch import flat
from relive.types import Array

__all__ = ["MemoryView", "View"]

Film: TypeAlias = Callable[[int, int], bytes | None]
"""The film of an episode by its lane and first serial, as a GIF; None if there is none."""

_LANES = 64  # lanes that are listed one by one
_EPISODES = 400  # episodes of a list
_NUMBERS = 64  # numbers of a value that are shown
_STEPS = 2000  # steps of an episode that are shown
_VERSION = "policy_version"


class View(Protocol):
    """Answers the web page's requests."""

    def answer(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Plain data; ``{"error": ...}`` where there is no answer."""

    def close(self) -> None:
        """Stop looking."""


@final
class MemoryView:
    """The view of a memory, possibly in use. It counts draws while requests come.

    Args:
        patience: Seconds without a request after which draws are no longer counted.
        film: Makes the film of an episode.
        filmed: Lane and first serial of episodes that can be filmed.
    """

    def __init__(
        self,
        memory: Memory | Rollout,
        *,
        film: Film | None = None,
        filmed: Callable[[], list[tuple[int, int]]] = list,
        patience: float = 60.0,
    ) -> None:
        self._memory = memory.memory if isinstance(memory, Rollout) else memory
        self._film, self._filmed = film, filmed
        self._patience, self._counting, self._asked = patience, False, 0.0
        self._lock = threading.Lock()
        """Held while ``_counting`` and ``_asked`` are read or changed: at most one timer runs, and one does while draws
        are counted."""

    def answer(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Plain data for a request: ``summary``, ``episodes``, ``episode``, ``row``, ``picture`` or ``film``."""
        kinds = {
            "summary": self.summary,
            "episodes": self.episodes,
            "episode": self.episode,
            "row": self.row,
            "picture": self.picture,
            "film": self.film,
        }
        what = asked.get("what")
        try:
            if what not in kinds:
                raise OptionError("what", f"be one of {', '.join(kinds)}", repr(what))
            given = {key: value for key, value in asked.items() if key != "what"}
            return dict(kinds[what](**given))  # type: ignore[operator]
        except (ReliveError, TypeError, ValueError, KeyError) as error:
            return {"error": str(error) or type(error).__name__}

    # ---- summaries -------------------------------------------------------------------------------------------------

    def summary(self) -> dict[str, Any]:
        """Statistics of the whole memory."""
        memory = self._memory
        self._count_draws()
        tails, heads = memory.inspect.tails.tolist(), memory.inspect.heads.tolist()
        census, state = memory.inspect.census(), memory.random_state
        lanes = [{"lane": lane, "tail": tails[lane], "head": heads[lane]} for lane in range(min(_LANES, memory.lanes))]
        return {
            "time": time.time(),
            "fields": [
                {"key": c.key, "dtype": str(c.dtype), "shape": list(c.shape), "role": str(c.role), "nbytes": c.nbytes}
                for c in memory.schema
            ],
            "sampler": str(memory.sampler),
            "window": str(memory.window),
            "capacity": memory.capacity,
            "lanes": memory.lanes,
            "span": memory.capacity // memory.lanes,
            "by_lane": lanes,
            "steps": len(memory),
            "rows": sum(heads) - sum(tails),
            "evicted": sum(tails),
            "inserted": sum(heads),
            "ready": memory.ready,
            "full": memory.inspect.overwrites,
            "nbytes": memory.nbytes,
            "used_nbytes": memory.inspect.used_nbytes,
            "batches": state["batches"],
            "dropped": memory.dropped if isinstance(memory.sampler, Prioritized) else None,
            "census": {key: _plain(value) for key, value in census.items()},
            "versions": self._versions(),
        }

    def _versions(self) -> dict[str, Any] | None:
        """Policy versions of the rows held, and of rows drawn, weighted by draws."""
        if _VERSION not in self._memory or not len(self._memory):
            return None
        rows = self._memory.inspect.newest(min(len(self._memory), 100_000))
        draws = self._memory.inspect.draw_counts(rows)
        drawn = None if draws is None or not draws.any() else _spread(rows[_VERSION], draws)
        return {"held": _spread(rows[_VERSION], np.ones(len(rows[_VERSION]))), "drawn": drawn}

    def _count_draws(self) -> None:
        """Count draws from now on, until nobody asks any more."""
        with self._lock:
            self._asked = time.monotonic()
            if self._counting:
                return
            if self._memory.inspect.count_draws():  # somebody else counts them, and ends it
                return
            self._counting = True
        self._look_again(self._patience)

    def _look_again(self, seconds: float) -> None:
        # A thread that waits must not keep the memory.
        timer = threading.Timer(seconds, _call_if_there, (weakref.WeakMethod(self._maybe_stop),))
        timer.name, timer.daemon = "relive-live", True
        timer.start()

    def close(self) -> None:
        """Count draws no longer."""
        with self._lock:
            counting, self._counting = self._counting, False
        if counting:
            with contextlib.suppress(StorageError):
                self._memory.inspect.count_draws(False)

    def _maybe_stop(self) -> None:
        with self._lock:
            left = self._patience - (time.monotonic() - self._asked)
            if not self._counting:
                return
            if left <= 0:
                self._counting = False
                with contextlib.suppress(StorageError):  # closed meanwhile
                    self._memory.inspect.count_draws(False)
        if left > 0:
            self._look_again(left)

    # ---- episodes --------------------------------------------------------------------------------------------------

    def episodes(self, lane: int | None = None, before: int | None = None, lanes: int = 16) -> dict[str, Any]:
        """Episodes of some lanes, newest first.

        Args:
            lane: Of this lane alone; None: of the first ``lanes`` ones.
            before: Only those that begin before this serial.
        """
        memory = self._memory
        found = memory.episodes
        chosen = found.lane == lane if lane is not None else found.lane < lanes
        if before is not None:
            chosen &= found.start < before
        order = np.flatnonzero(chosen)
        order = order[np.argsort(-found.start[order], kind="stable")]
        shown, filmed = order[:_EPISODES], set(self._filmed())
        listed = []
        for place in shown.tolist():
            one = {key: _plain(values[place]) for key, values in found.items()}
            one["return"] = self._return(one["lane"], one["start"], one["length"])
            one["film"] = (one["lane"], one["start"]) in filmed
            listed.append(one)
        tails, heads = memory.inspect.tails, memory.inspect.heads
        bounds = [{"lane": i, "tail": int(tails[i]), "head": int(heads[i])} for i in range(memory.lanes)]
        kept = [bounds[lane]] if lane is not None and 0 <= lane < memory.lanes else bounds[:lanes]
        return {"episodes": listed, "more": len(order) > len(shown), "lanes": kept, "in_all": memory.lanes}

    def _return(self, lane: int, start: int, length: int) -> float | None:
        """The sum of the rewards held, averaged over agents."""
        rewards = [column.key for column in self._memory.schema if column.role == "reward"]
        first = max(start, int(self._memory.inspect.tails[lane]))
        count = start + length - first
        if not rewards or count < 1:
            return None
        try:
            values = self._rows(rewards[0], lane, first, count)
        except OptionError:  # overwritten since
            return None
        return float(np.mean(values.reshape(count, -1).sum(axis=0)))

    def episode(self, lane: int, start: int) -> dict[str, Any]:
        """An episode's rows by field: numbers as values, images by their size."""
        memory = self._memory
        found = memory.episodes
        places = np.flatnonzero((found.lane == lane) & (found.start == start))
        if not len(places):
            raise OptionError("start", "be the first serial of an episode that is held", f"{start} of lane {lane}")
        about = {key: _plain(values[places[0]]) for key, values in found.items()}
        first = max(start, int(memory.inspect.tails[lane]))
        length = min(about["length"] - (first - start), _STEPS)
        fields = {}
        for column in memory.schema:
            if _pictured(column.dtype, column.shape):
                fields[column.key] = {"shape": list(column.shape), "picture": True}
                continue
            values = self._rows(column.key, lane, first, length).reshape(length, -1)
            fields[column.key] = {
                "shape": list(column.shape),
                "values": _plain(values[:, :_NUMBERS].T),
                "cut": values.shape[1] > _NUMBERS,
            }
        about |= {"first": first, "shown": length, "film": (lane, start) in set(self._filmed())}
        return {**about, "fields": fields, "return": self._return(lane, first, length)}

    def row(self, lane: int, serial: int) -> dict[str, Any]:
        """A row as stored, and as read through the window."""
        memory = self._memory
        tails, heads = memory.inspect.tails, memory.inspect.heads
        if not 0 <= lane < memory.lanes or not tails[lane] <= serial < heads[lane]:
            raise OptionError("serial", "be of a row that is held", f"{serial} of lane {lane}")
        stored = {c.key: _shown(self._rows(c.key, lane, serial, 1)[0]) for c in memory.schema}
        try:
            window = {key: _shown(value[0]) for key, value in flat(memory.read([lane], [serial])) if len(value)}
        except ReliveError as error:
            return {"stored": stored, "window": None, "why": str(error)}
        return {"stored": stored, "window": window}

    def picture(self, field: str, lane: int, serial: int) -> dict[str, Any]:
        """An image field as PNG."""
        value = self._rows(field, lane, serial, 1)[0]
        return {"png": base64.b64encode(encode_png(_as_picture(value))).decode()}

    def film(self, lane: int, start: int) -> dict[str, Any]:
        """A replayed episode as a GIF."""
        found = None if self._film is None else self._film(lane, start)
        if found is None:
            raise OptionError("episode", "be one that was filmed", f"{start} of lane {lane}")
        return {"gif": base64.b64encode(found).decode()}

    # ---- inside ----------------------------------------------------------------------------------------------------

    def _rows(self, key: str, lane: int, first: int, count: int) -> Array:
        """Copies of rows of a lane."""
        memory = self._memory
        values = memory[key]
        values = values[None] if memory.bare else values
        tails, heads = memory.inspect.tails, memory.inspect.heads
        if not 0 <= lane < memory.lanes or not tails[lane] <= first <= first + count <= heads[lane]:
            raise OptionError("serial", "be of a row that is held", f"{first} of lane {lane}")
        found = np.asarray(values[lane, (first + np.arange(count)) % (memory.capacity // memory.lanes)])
        if int(memory.inspect.tails[lane]) > first:
            raise OptionError("serial", "be of a row that is held", f"{first} of lane {lane}, overwritten meanwhile")
        return found


def _call_if_there(method: weakref.WeakMethod[Callable[[], None]]) -> None:
    found = method()
    if found is not None:
        found()


def _spread(values: Array, weights: Array) -> dict[str, Any]:
    """Minimum and maximum of values with a positive weight, and weighted quartiles."""
    order = np.argsort(values, kind="stable")
    order = order[weights[order] > 0]
    below = np.cumsum(weights[order])
    places = np.searchsorted(below, np.array([0.25, 0.5, 0.75]) * below[-1])
    values = values[order]
    return {"least": _plain(values[0]), "quartiles": _plain(values[places]), "largest": _plain(values[-1])}


def _pictured(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bool:
    return dtype == np.uint8 and len(shape) >= 2 and min(shape[-2:]) * max(shape) >= 64


def _as_picture(value: Array) -> Array:
    """``[height, width]`` or ``[height, width, 3]`` bytes of a field that is a picture in some order of axes."""
    while value.ndim > 3:
        value = value[0]
    if value.ndim == 3 and value.shape[-1] not in (1, 3):
        value = np.moveaxis(value, 0, -1)
    if value.ndim == 3 and value.shape[-1] != 3:
        value = value[..., -1]  # the newest frame
    if value.ndim < 2:
        raise OptionError("field", "be a picture", f"{value.dtype}{list(value.shape)}")
    return np.ascontiguousarray(value.astype(np.uint8))


def _shown(value: Any) -> dict[str, Any]:
    array = np.asarray(value)
    return {
        "dtype": str(array.dtype),
        "shape": list(array.shape),
        "values": _plain(array.reshape(-1)[:_NUMBERS]),
        "cut": array.size > _NUMBERS,
    }


def _plain(value: Any) -> Any:
    """As JSON data: NaN and infinity become None."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            return [_plain(each) for each in value]
        return value.tolist()
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not np.isfinite(value) else value
