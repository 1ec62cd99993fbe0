"""The memory as a list of dicts: slow, and plain enough to be believed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

import relive as rl

Row = dict[str, Any]
Anchor = tuple[int, int]


@dataclass
class Episode:
    start: int
    steps: list[Row] = field(default_factory=list)
    final: Row | None = None
    ended: bool = False

    def seen(self, i: int) -> Row:
        """The observed fields before step i; after the last step, the final ones."""
        if i < len(self.steps):
            return self.steps[i]
        assert self.final is not None
        return self.final


@dataclass
class Lane:
    episodes: list[Episode] = field(default_factory=list)
    head: int = 0
    floor: int = 0


class Oracle:
    """Keeps every episode for ever and works out what a lane of ``span`` rows would still hold."""

    def __init__(self, lanes: int, span: int, observed: list[str], loose: bool = False) -> None:
        self.lanes = [Lane() for _ in range(lanes)]
        self.span = span
        self.observed = observed
        self.loose = loose

    def append(self, lane: int, row: Row, final: Row | None) -> None:
        here = self.lanes[lane]
        if not here.episodes or here.episodes[-1].ended:
            here.episodes.append(Episode(here.head))
        episode = here.episodes[-1]
        episode.steps.append(row)
        here.head += 1
        if row["terminated"] or row["truncated"]:
            episode.ended = True
            if not self.loose:
                episode.final = final if final is not None else {key: row[key] for key in self.observed}
                here.head += 1

    def cut(self, lane: int) -> None:
        here = self.lanes[lane]
        if not here.episodes or here.episodes[-1].ended:
            return
        episode = here.episodes[-1]
        if self.loose:
            episode.steps[-1]["truncated"] = True
        elif len(episode.steps) == 1:
            here.floor = self.tail(lane)
            here.head -= 1
            here.episodes.pop()
            return
        else:
            last = episode.steps.pop()
            episode.final = {key: last[key] for key in self.observed}
            episode.steps[-1]["truncated"] = True
        episode.ended = True

    def clear(self) -> None:
        for here in self.lanes:
            here.episodes.clear()
            here.floor = here.head

    def forget(self, lane: int, before: int) -> None:
        here = self.lanes[lane]
        here.floor = max(self.tail(lane), min(before, here.head))
        if here.floor == here.head and here.episodes and not here.episodes[-1].ended:
            here.episodes.pop()

    def forget_starts(self) -> None:
        """What a file of rows cannot tell: where episodes began whose first rows are overwritten."""
        for lane, here in enumerate(self.lanes):
            for episode in here.episodes:
                lost = min(self.tail(lane) - 1 - episode.start, len(episode.steps) - 1)
                if lost > 0:
                    episode.start += lost
                    del episode.steps[:lost]

    def tail(self, lane: int) -> int:
        here = self.lanes[lane]
        return max(here.floor, here.head - self.span)

    def __len__(self) -> int:
        count = 0
        for lane, here in enumerate(self.lanes):
            for episode in here.episodes:
                count += sum(episode.start + i >= self.tail(lane) for i in range(len(episode.steps)))
        return count

    def known(self, episode: Episode, steps: int) -> bool:
        """Whether what was seen after ``steps`` steps is known."""
        if self.loose:
            return steps <= len(episode.steps)
        return steps < len(episode.steps) or (steps == len(episode.steps) and episode.ended)

    def anchors(self, window: Any, frames: int) -> dict[Anchor, tuple[Episode, int]]:
        found: dict[Anchor, tuple[Episode, int]] = {}
        for lane, here in enumerate(self.lanes):
            for number, episode in enumerate(here.episodes):
                for i in range(len(episode.steps)):
                    if self.can_start(lane, number, i, window, frames):
                        found[lane, episode.start + i] = (episode, i)
        return found

    def can_start(self, lane: int, number: int, i: int, window: Any, frames: int) -> bool:
        episode = self.lanes[lane].episodes[number]
        if isinstance(window, rl.Episodes):
            return i == 0 and episode.ended and episode.start >= self.tail(lane)
        burn = window.burn_in if isinstance(window, rl.Sequence) else 0
        oldest = max(0, i - burn - (frames - 1))
        if episode.start + oldest < self.tail(lane):
            return False
        length = {rl.Transition: 1, rl.NStep: getattr(window, "n", 0)}.get(type(window), getattr(window, "length", 0))
        if isinstance(window, rl.Sequence):
            if window.overlap is not None and i % (window.length - window.overlap):
                return False
            if window.across:
                return len(self.run(lane, number, i, length)) == length
        return episode.ended or self.known(episode, i + length)

    def run(self, lane: int, number: int, i: int, length: int) -> list[tuple[Episode, int]]:
        """Complete steps from one on, over episode ends."""
        steps: list[tuple[Episode, int]] = []
        for episode in self.lanes[lane].episodes[number:]:
            for k in range(i, len(episode.steps)):
                if self.known(episode, k + 1):
                    steps.append((episode, k))
            i = 0
        return steps[:length]

    def frames(self, episode: Episode, i: int, key: str, frames: int) -> Any:
        if frames == 1:
            return episode.seen(i)[key]
        return np.stack([episode.seen(max(0, i - back))[key] for back in reversed(range(frames))])

    def expand(self, anchor: Anchor, window: Any, frames: dict[str, int]) -> dict[str, Any]:
        """What the window must give for one anchor, without padding."""
        lane, serial = anchor
        number = next(n for n, e in enumerate(self.lanes[lane].episodes) if e.start <= serial < e.start + len(e.steps))
        episode = self.lanes[lane].episodes[number]
        i = serial - episode.start
        if isinstance(window, (rl.Transition, rl.NStep)):
            return self.expand_step(episode, i, window, frames)
        return self.expand_span(lane, number, i, window, frames)

    def expand_step(self, episode: Episode, i: int, window: Any, frames: dict[str, int]) -> dict[str, Any]:
        n, gamma = getattr(window, "n", 1), window.gamma
        steps = episode.steps[i : i + n]
        last = steps[-1]
        out = {key: steps[0][key] for key in steps[0] if key not in self.observed}
        out["reward"] = np.float32(sum(gamma**k * float(row["reward"]) for k, row in enumerate(steps)))
        out["discount"] = np.float32(0.0 if last["terminated"] else gamma ** len(steps))
        out["terminated"], out["truncated"] = last["terminated"], last["truncated"]
        for key in self.observed:
            out[key] = self.frames(episode, i, key, frames.get(key, 1))
            if self.loose:
                out[f"next_{key}"] = last[f"next_{key}"]
            else:
                out[f"next_{key}"] = self.frames(episode, i + len(steps), key, frames.get(key, 1))
        return out

    def expand_span(self, lane: int, number: int, i: int, window: Any, frames: dict[str, int]) -> dict[str, Any]:
        episode = self.lanes[lane].episodes[number]
        burn = 0
        if isinstance(window, rl.Episodes):
            steps = [(episode, k) for k in range(len(episode.steps))][: window.length]
        else:
            burn = min(i, window.burn_in)
            if window.across:
                steps = self.run(lane, number, i - burn, burn + window.length)
            else:
                steps = [(episode, k) for k in range(i - burn, min(i + window.length, len(episode.steps)))]
        out: dict[str, Any] = {"mask": [k >= burn for k in range(len(steps))]}
        out["discount"] = [np.float32(0 if e.steps[k]["terminated"] else window.gamma) for e, k in steps]
        for key in steps[0][0].steps[0]:
            if key not in self.observed or self.loose:
                out[key] = [e.steps[k][key] for e, k in steps]
        across = isinstance(window, rl.Sequence) and window.across
        if isinstance(window, rl.Sequence):
            out["starts"] = [k == 0 for _, k in steps]
        for key in self.observed if not self.loose else ():
            many = frames.get(key, 1)
            out[key] = [self.frames(e, k, key, many) for e, k in steps]
            if across:
                out[f"next_{key}"] = [self.frames(e, k + 1, key, many) for e, k in steps]
            else:
                out[key].append(self.frames(episode, steps[-1][1] + 1, key, many))
        # Burn-in that there is not: what is trained begins at the same place in every sample.
        missing = getattr(window, "burn_in", 0) - burn
        out = {key: [np.zeros_like(values[0])] * missing + values for key, values in out.items()}
        return {**out, "lengths": len(steps) - burn}


def padded(values: list[Any], length: int) -> Any:
    """Values with zeros after them, up to a length."""
    array = np.asarray(values)
    out = np.zeros((length, *array.shape[1:]), array.dtype)
    out[: len(array)] = array
    return out
