"""The memory against the oracle: any window, any sampler, any order of calls."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
import uuid
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

import relive as rl
from disks import save_on
from oracle import Oracle, padded
from relive.memory.snapshot import SystemDisk, saving

windows = st.one_of(
    st.just(rl.Transition()),
    st.builds(rl.NStep, st.integers(1, 4), st.sampled_from([1.0, 0.5])),
    st.builds(
        lambda length, burn, overlap, across: rl.Sequence(
            length, burn, None if overlap is None else overlap % length, across
        ),
        st.integers(1, 4),
        st.integers(0, 2),
        st.one_of(st.none(), st.integers(0, 3)),
        st.booleans(),
    ),
    st.builds(rl.Episodes, st.one_of(st.none(), st.integers(1, 6)), st.booleans()),
)
samplers = st.one_of(
    st.builds(rl.Uniform, st.booleans()),
    st.just(rl.Shuffled()),
    st.just(rl.Recent()),
    st.builds(rl.Prioritized, st.sampled_from([0.0, 0.6, 1.0]), st.just(0.5), st.just(0.01), st.booleans()),
)


class SlowDisk:
    """A disk whose files take a while; says when the instant that is saved is past, which is when rows are written."""

    def __init__(self, instant: threading.Event) -> None:
        self.instant, self.files = instant, 0

    def __getattr__(self, call: str) -> Any:
        return getattr(SystemDisk(), call)

    def create(self, path: Path) -> int:
        self.files += 1
        if self.files > 1:
            self.instant.set()
        time.sleep(0.0005)
        return SystemDisk().create(path)


class Machine(RuleBasedStateMachine):
    """Drives a memory and its oracle with the same calls."""

    # ram, mapped, shared; or writers: shared, and every lane is written to by a writer of its own
    kind = "ram"

    @initialize(
        lanes=st.integers(1, 3),
        span=st.integers(10, 14),
        window=windows,
        sampler=samplers,
        frames=st.sampled_from([1, 1, 2, 3]),
        loose=st.sampled_from([False, False, False, True]),
        wide=st.booleans(),
    )
    def start(self, lanes: int, span: int, window: Any, sampler: Any, frames: int, loose: bool, wide: bool) -> None:
        self.width = lanes
        self.window, self.sampler, self.loose = window, sampler, loose
        self.stack = {"obs": frames} if frames > 1 and not loose else {}
        fields: dict[str, Any] = {
            "obs": rl.Field((2,)),
            "state": rl.Field((), "float64"),
            "action": rl.Field((), "uint8"),
            # Wide enough for a panel of its own, or small enough for the packed row.
            "memo": rl.Field((1100,) if wide else (3,), "uint8"),
        }
        if loose:
            fields |= {"next_obs": rl.Field((2,)), "next_state": rl.Field((), "float64")}
        self.folder = Path(tempfile.mkdtemp())
        # So few that saves keep segments of those before.
        self.segment_rows, saving.SEGMENT_ROWS = saving.SEGMENT_ROWS, 4
        self.name = f"test-{uuid.uuid4().hex}"
        self.storage = {"ram": rl.Ram(), "mapped": rl.Mapped(self.folder / "rows")}.get(self.kind, rl.Shared(self.name))
        self.memory = rl.Memory(
            rl.Schema(**fields),
            lanes * span,
            lanes,
            sampler=sampler,
            window=window,
            stack=self.stack,
            storage=self.storage,
            seed=1,
        )
        self.logged = False
        self.saver: threading.Thread | None = None
        self.failed: list[BaseException] = []
        self.writers = [rl.Writer(self.name, lane) for lane in range(lanes)] if self.kind == "writers" else []
        self.unseen = 0
        self.oracle = Oracle(lanes, span, ["obs", "state"], loose)
        self.count = 0
        self.priorities: dict[tuple[int, int], float] = {}
        self.largest = 1.0
        self.batch: rl.Batch | None = None

    def numbers(self, *shape: int) -> np.ndarray[Any, Any]:
        size = int(np.prod(shape, dtype=int))
        values = self.count + np.arange(size)
        self.count += size
        return values.reshape(shape)

    def block(self, time: int, lanes: list[int], ends: list[int], with_finals: bool) -> dict[str, Any]:
        """Random-looking steps [time, lanes] and the same steps told to the oracle."""
        shape = (time, len(lanes))
        codes = np.resize(np.asarray(ends or [0]), shape)
        terminated, truncated = (codes & 1) != 0, (codes & 2) != 0
        data: dict[str, Any] = {
            "obs": self.numbers(*shape, 2).astype(np.float32),
            "state": self.numbers(*shape).astype(np.float64),
            "action": (self.numbers(*shape) % 256).astype(np.uint8),
            "memo": np.resize(self.numbers(*shape, 3) % 251, (*shape, *self.memory.schema["memo"].shape)).astype(
                np.uint8
            ),
            "reward": self.numbers(*shape).astype(np.float32),
            "terminated": terminated,
            "truncated": truncated,
        }
        finals = {"obs": self.numbers(*shape, 2).astype(np.float32), "state": self.numbers(*shape).astype(np.float64)}
        if self.loose:
            data |= {f"next_{key}": value for key, value in finals.items()}
        for t in range(time):
            for i, lane in enumerate(lanes):
                row = {key: value[t, i] for key, value in data.items()}
                given = with_finals or (truncated & ~terminated).any()
                final = {key: value[t, i] for key, value in finals.items()} if given else None
                self.oracle.append(lane, row, final)
        if not self.loose and (with_finals or (truncated & ~terminated).any()):
            data |= {f"final_{key}": value for key, value in finals.items()}
        return data

    @rule(ends=st.lists(st.sampled_from([0, 0, 0, 1, 2, 3]), min_size=1, max_size=5), finals=st.booleans())
    def append_all(self, ends: list[int], finals: bool) -> None:
        data = self.block(1, list(range(self.width)), ends, finals)
        if self.writers:
            self.write_blocks(data)
            return
        self.memory.append(**{key: value[0] for key, value in data.items()})

    @rule(lane=st.integers(0, 2), ends=st.sampled_from([0, 0, 1, 2]), finals=st.booleans())
    def append_one(self, lane: int, ends: int, finals: bool) -> None:
        lane %= self.width
        data = self.block(1, [lane], [ends], finals)
        if self.writers:
            self.writers[lane].append(**{key: value[0, 0] for key, value in data.items()})
            self.look(2)
        elif finals:
            self.memory.append(lanes=lane, **{key: value[0, 0] for key, value in data.items()})
        else:
            self.memory.append(lanes=[lane], **{key: value[0] for key, value in data.items()})

    @rule(
        time=st.integers(1, 30),
        ends=st.lists(st.sampled_from([0, 0, 0, 0, 1, 2]), min_size=1, max_size=11),
        finals=st.booleans(),
        compact=st.booleans(),
    )
    def extend(self, time: int, ends: list[int], finals: bool, compact: bool) -> None:
        data = self.block(time, list(range(self.width)), ends, finals)
        ended = data["terminated"] | data["truncated"]
        if self.writers:
            self.write_blocks(data)
            return
        if compact:
            data |= {key: value[ended] for key, value in data.items() if key.startswith("final_")}
        self.memory.extend(**data)

    @rule(lane=st.integers(0, 2))
    def cut(self, lane: int) -> None:
        lane %= self.width
        (self.writers[lane] if self.writers else self.memory).cut(lane)
        self.oracle.cut(lane)

    @precondition(lambda self: not self.writers)
    @rule(lane=st.integers(0, 2), rows=st.integers(0, 16))
    def forget(self, lane: int, rows: int) -> None:
        lane %= self.width
        before = max(0, self.oracle.tail(lane) - 1 + rows)
        self.memory.forget(lane, before)
        self.oracle.forget(lane, before)

    @precondition(lambda self: not self.writers and not self.logged)
    @rule(back=st.integers(1, 12))
    def write_later(self, back: int) -> None:
        """Rows that are written to after they were appended, and perhaps saved."""
        for lane, here in enumerate(self.oracle.lanes):
            for episode in here.episodes:
                at = here.head - back - episode.start
                if 0 <= at < len(episode.steps) and episode.start + at >= self.oracle.tail(lane):
                    value = self.numbers() % 251
                    self.memory.slots("action")[lane, (episode.start + at) % self.oracle.span] = value
                    episode.steps[at]["action"] = np.uint8(value)

    def write_blocks(self, data: dict[str, Any]) -> None:
        """A row at a time by the lanes' writers, looked at before they can overtake the memory."""
        for t in range(len(data["terminated"])):
            for lane, writer in enumerate(self.writers):
                writer.append(**{key: value[t, lane] for key, value in data.items()})
            self.look(2)

    def look(self, rows: int) -> None:
        self.unseen += rows
        if self.unseen > 6:
            len(self.memory)
            self.unseen = 0

    @rule(size=st.integers(1, 9), go_on=st.booleans())
    def save_and_load(self, size: int, go_on: bool) -> None:
        """What is loaded draws what the saved memory draws next, and the one is as good as the other."""
        self.memory.save(self.folder / "snapshot")
        self.logged = False
        again = rl.Memory.load(self.folder / "snapshot")
        for name in ("schema", "capacity", "lanes", "sampler", "window", "stack", "dropped"):
            assert getattr(again, name) == getattr(self.memory, name)
        assert again.random_state == self.memory.random_state
        for memory in (again, self.memory):
            assert len(memory) == len(self.oracle)
        exact = isinstance(self.sampler, rl.Recent) or self.sampler == rl.Uniform(replace=False)
        if len(self.anchors()) >= (size if exact else 1):
            for _ in range(3):
                one, two = self.memory.sample(size), again.sample(size)
                assert list(one) == list(two)
                for key in one:
                    np.testing.assert_array_equal(one[key], two[key])
        for key, values in self.memory.episodes.items():
            np.testing.assert_array_equal(values, again.episodes[key])
        if isinstance(self.sampler, rl.Prioritized):
            np.testing.assert_array_equal(self.memory.priorities, again.priorities)
        if go_on and self.kind == "ram":
            self.memory = again

    @rule()
    def save_beside(self) -> None:
        """A slow save in a thread of its own, while everything goes on; what it wrote can be loaded."""
        self.join_saver()
        instant = threading.Event()

        def work() -> None:
            try:
                save_on(self.memory, self.folder / "beside", SlowDisk(instant))
                rl.Memory.load(self.folder / "beside", sampler=self.sampler, window=self.window)
            except BaseException as error:
                self.failed.append(error)
            instant.set()

        self.saver = threading.Thread(target=work)
        self.saver.start()
        instant.wait()
        self.logged = False

    def join_saver(self) -> None:
        if self.saver is not None:
            self.saver.join()
            self.saver = None
        assert not self.failed

    @precondition(lambda self: self.kind in ("ram", "mapped"))
    @rule()
    def log(self) -> None:
        self.memory.save(self.folder / "logged", journal="written")
        self.logged = True
        self.logged_largest = self.largest

    @precondition(lambda self: self.logged)
    @rule(go_on=st.booleans())
    def load_logged(self, go_on: bool) -> None:
        """A snapshot and its journal hold every row that was appended."""
        memory = rl.Memory.load(self.folder / "logged")
        assert len(memory) == len(self.oracle)
        for key, values in self.memory.episodes.items():
            np.testing.assert_array_equal(values, memory.episodes[key])
        rows = sorted(self.anchors())
        assert memory.ready == len(rows)
        if rows:
            self.check(memory.read([lane for lane, _ in rows], [serial for _, serial in rows]), rows)
        if go_on and self.kind == "ram":
            self.memory = memory
            self.logged = False
            if isinstance(self.sampler, rl.Prioritized):
                self.largest = self.logged_largest
                spans = memory.priorities
                self.priorities = {(lane, serial): spans[lane, serial % self.oracle.span] for lane, serial in rows}
                self.batch = None

    @precondition(lambda self: self.kind == "mapped")
    @rule(crash=st.booleans())
    def open_again(self, crash: bool) -> None:
        """A file that is opened again, or its bytes after a crash, holds the rows; open episodes go on."""
        self.join_saver()
        path = Path(self.storage.path)
        if crash:
            path = path.with_name(f"rows-{self.count}-{len(list(self.folder.iterdir()))}")
            shutil.copy(self.storage.path, path)
            self.storage = rl.Mapped(path)
        else:
            self.memory.close()
        self.memory = rl.Memory.open(
            self.storage, sampler=self.sampler, window=self.window, stack=self.stack, seed=self.count
        )
        self.logged = False
        self.oracle.forget_starts()
        self.priorities.clear()
        self.largest = 1.0

    def teardown(self) -> None:
        if hasattr(self, "memory"):
            if self.saver is not None:
                self.saver.join()
            saving.SEGMENT_ROWS = self.segment_rows
            for writer in self.writers:
                writer.close()
            self.memory.close()
            shutil.rmtree(self.folder)
            assert not self.failed

    @rule()
    def clear(self) -> None:
        self.memory.clear()
        self.oracle.clear()
        self.largest = 1.0

    @rule(size=st.integers(1, 12))
    def sample(self, size: int) -> None:
        anchors = self.anchors()
        exact = isinstance(self.sampler, rl.Recent) or self.sampler == rl.Uniform(replace=False)
        if len(anchors) < (size if exact else 1):
            try:
                self.memory.sample(size)
            except rl.errors.NotEnoughRows:
                return
            raise AssertionError("sampled from too few rows")
        batch = self.memory.sample(size)
        rows = list(zip(batch.lanes.tolist(), batch.serials.tolist(), strict=True))
        if not isinstance(self.sampler, rl.Shuffled):
            assert len(rows) == size
        if exact or isinstance(self.sampler, rl.Shuffled):
            assert len(set(rows)) == len(rows)
        if isinstance(self.sampler, rl.Recent):
            self.check_recent(rows, anchors, size)
        self.check(batch, rows)
        if isinstance(self.sampler, rl.Prioritized):
            self.check_weights(batch, rows, anchors)
        else:
            assert (batch.weights == 1).all()
        self.batch = batch

    @rule()
    def read_all(self) -> None:
        rows = sorted(self.anchors())
        if rows:
            self.check(self.memory.read([lane for lane, _ in rows], [serial for _, serial in rows]), rows)

    @rule(scale=st.sampled_from([0.0, 0.1, 3.0]))
    def update_priorities(self, scale: float) -> None:
        if self.batch is None or not isinstance(self.sampler, rl.Prioritized):
            return
        anchors = self.anchors()
        self.follow(anchors)
        errors = scale * (1 + np.arange(len(self.batch.serials))) * (-1) ** np.arange(len(self.batch.serials))
        dropped = 0
        for row, error in zip(zip(self.batch.lanes, self.batch.serials, strict=True), errors, strict=True):
            key = (int(row[0]), int(row[1]))
            if key in anchors:
                self.priorities[key] = (abs(error) + self.sampler.eps) ** self.sampler.alpha
                self.largest = max(self.largest, self.priorities[key])
            else:
                dropped += 1
        assert self.memory.update_priorities(self.batch, errors) == dropped

    # A rule, not an invariant: looking brings the memory's indexes up to date, and several writes in between two looks
    # have to come out right as well.
    @rule()
    def counts(self) -> None:
        assert len(self.memory) == len(self.oracle)
        anchors = self.anchors()
        assert self.memory.ready == len(anchors)
        if isinstance(self.sampler, rl.Prioritized):
            self.follow(anchors)
            span = self.oracle.span
            expected = np.zeros((self.width, span))
            for (lane, serial), priority in self.priorities.items():
                expected[lane, serial % span] = priority
            np.testing.assert_allclose(self.memory.priorities, expected, rtol=1e-12)

    @rule()
    def episodes(self) -> None:
        found = self.memory.episodes
        expected = []
        for lane, here in enumerate(self.oracle.lanes):
            for episode in here.episodes:
                if episode.start + len(episode.steps) - 1 >= self.oracle.tail(lane):
                    whole = episode.start >= self.oracle.tail(lane)
                    expected.append((lane, episode.start, len(episode.steps), whole))
        assert list(zip(*(found[k].tolist() for k in ("lane", "start", "length", "whole")), strict=True)) == expected

    def anchors(self) -> dict[tuple[int, int], Any]:
        return self.oracle.anchors(self.window, self.stack.get("obs", 1))

    def follow(self, anchors: dict[tuple[int, int], Any]) -> None:
        self.priorities = {row: self.priorities.get(row, self.largest) for row in anchors}

    def check_recent(self, rows: list[Any], anchors: dict[Any, Any], size: int) -> None:
        ages = {}
        for lane in range(self.width):
            for age, serial in enumerate(sorted((s for at, s in anchors if at == lane), reverse=True)):
                ages[lane, serial] = age
        assert max(ages[row] for row in rows) <= sorted(ages.values())[size - 1]

    def check_weights(self, batch: rl.Batch, rows: list[Any], anchors: dict[Any, Any]) -> None:
        self.follow(anchors)
        least = min(self.priorities.values())
        expected = [(least / self.priorities[row]) ** 0.5 for row in rows]
        np.testing.assert_allclose(batch.weights, expected, rtol=1e-6)

    def check(self, batch: rl.Batch, rows: list[Any]) -> None:
        expected = [self.oracle.expand(row, self.window, self.stack) for row in rows]
        extra = {"weights", "serials", "lanes"}
        assert set(batch) - extra == set(expected[0])
        packed = isinstance(self.window, rl.Episodes) and self.window.packed
        for key in expected[0]:
            parts = [one[key] for one in expected]
            if key != "lengths" and not isinstance(self.window, (rl.Transition, rl.NStep)):
                if packed:
                    parts = [value for part in parts for value in part]
                else:
                    parts = [padded(part, batch[key].shape[1]) for part in parts]
            np.testing.assert_allclose(batch[key], np.asarray(parts), rtol=1e-6, err_msg=key)


@pytest.mark.parametrize("kind", ["ram", "mapped", "shared", "writers"])
def test_memory_equals_the_oracle(kind: str) -> None:
    """Any order of writes, reads and reweighings gives what a list of dicts gives, wherever the rows live."""
    machine = type("Machine", (Machine,), {"kind": kind})
    run_state_machine_as_test(machine, settings=settings(stateful_step_count=25))
