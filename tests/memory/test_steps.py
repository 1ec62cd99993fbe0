"""Steps that fit in other clothes are stored; those that do not are refused whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import refusals
import relive as rl
from relive.errors import OptionError, StepError


def memory(lanes: int | None = 2, **fields: Any) -> rl.Memory:
    chosen = fields or {"obs": rl.Field((2,)), "action": rl.Field((), "uint8")}
    return rl.Memory(rl.Schema(**chosen), 16, lanes, seed=0)


def step(**changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "obs": np.zeros((2, 2), np.float32),
        "action": np.zeros(2, np.uint8),
        "reward": np.zeros(2, np.float32),
        "terminated": np.zeros(2, bool),
        "truncated": np.zeros(2, bool),
    }
    return {key: value for key, value in (values | changes).items() if value is not ...}


def refused(target: rl.Memory, call: str = "append", **values: Any) -> StepError:
    before = (len(target), [target[c.key].tobytes() for c in target.schema], target.random_state)
    with pytest.raises(StepError) as caught:
        getattr(target, call)(**values)
    assert (len(target), [target[c.key].tobytes() for c in target.schema], target.random_state) == before
    return caught.value


@pytest.mark.parametrize(
    ("changes", "name", "got"),
    [
        ({"obs": np.zeros((2, 3))}, "obs", "[2, 3]"),
        ({"obs": np.zeros(2)}, "obs", "[2]"),
        ({"reward": 1.0}, "reward", "[]"),
        ({"action": ...}, "action", "nothing"),
        ({"terminated": ...}, "terminated", "nothing"),
        ({"velocity": np.zeros(2)}, "velocity", "an extra value"),
        ({"action": np.array([0.5, 1.0])}, "action", "0.5"),
        ({"action": np.array([0, 256])}, "action", "256"),
        ({"action": np.array([-1, 3])}, "action", "-1"),
        ({"obs": np.full((2, 2), 1e300)}, "obs", "1e+300"),
        ({"obs": np.full((2, 2), 16777217)}, "obs", "16777217"),
        ({"terminated": np.zeros(2)}, "terminated", "float64"),
        ({"terminated": [0, 2]}, "terminated", "2"),
        ({"obs": "north"}, "obs", "'north'"),
        ({"obs": [[1.0], [1.0, 2.0]]}, "obs", "[[1.0], [1.0, 2.0]]"),
        ({"truncated": np.array([True, False])}, "final_obs", "none"),
        ({"truncated": np.array([True, False]), "final_obs": [None, np.zeros(2)]}, "final_obs[0]", "None"),
        ({"terminated": np.array([True, False]), "final_obs": np.zeros((3, 2))}, "final_obs", "[3, 2]"),
    ],
)
def test_a_wrong_step_is_refused_whole(changes: dict[str, Any], name: str, got: str) -> None:
    target = memory()
    target.append(**step())
    (problem,) = refused(target, **step(**changes)).problems
    assert (problem.name, problem.got) == (name, got)


def test_all_problems_are_named_at_once() -> None:
    error = refused(memory(), **step(obs=np.zeros((2, 3)), action=..., speed=1))
    assert [problem.name for problem in error.problems] == ["speed", "action", "obs"]


@pytest.mark.parametrize(
    "changes",
    [
        {"obs": np.zeros((2, 2), np.float64)},
        {"obs": np.zeros((2, 2), np.int32)},
        {"obs": np.zeros((2, 4), np.float32)[:, ::2]},
        {"obs": np.zeros((2, 2), ">f4")},
        {"obs": [[0, 0], [0.0, 0.0]]},
        {"action": np.zeros(2, np.int64)},
        {"action": [0, 0]},
        {"terminated": [False, False]},
        {"terminated": np.zeros(2, np.int64)},
        {"final_obs": None},
        {"truncated": np.array([True, False]), "final_obs": [np.zeros(2), None]},
        {"truncated": np.array([True, False]), "final_obs": np.array([np.zeros(2), None], dtype=object)},
        {"terminated": np.array([True, True])},
    ],
)
def test_what_fits_is_stored(changes: dict[str, Any]) -> None:
    target = memory()
    target.append(**step(**changes))
    assert len(target) == 2


def test_one_environment_needs_no_lane_axis() -> None:
    target = memory(None)
    for t in range(3):
        target.append(obs=[t, t], action=t, reward=1.0, terminated=t == 2, truncated=False)
    np.testing.assert_array_equal(target["obs"][:, 0], [0, 1, 2, 2])
    target.append(obs=(9, 9), action=np.int64(1), reward=np.float64(2), terminated=np.bool_(True), truncated=False)
    assert len(target) == 4


def test_one_lane_of_many() -> None:
    target = memory()
    target.append(lanes=1, obs=[1, 2], action=3, reward=0.5, terminated=False, truncated=False)
    target.append(lanes=np.int64(1), obs=[3, 4], action=3, reward=0.5, terminated=False, truncated=False)
    batch = target.sample(1)
    assert (batch.lanes[0], batch.serials[0], batch.next_obs[0].tolist()) == (1, 0, [3.0, 4.0])


@pytest.mark.parametrize("lanes", [2, -1, [0, 0], [0, 2], [0.5], "all", [[0]], [True]])
def test_unknown_lanes_are_refused(lanes: Any) -> None:
    target = memory()
    with refusals.refused(OptionError, "lanes"):
        target.append(lanes=lanes, **step())
    assert len(target) == 0


def test_final_observations_may_be_objects_of_nested_spaces() -> None:
    """As Gymnasium's vector environments give them."""
    fields = {"a": rl.Field((2,)), "b": (rl.Field(), rl.Field((), "uint8"))}
    target = memory(2, obs=fields)
    entry = {"a": np.array([5.0, 6.0]), "b": (7.0, 8)}
    finals = np.empty(2, dtype=object)
    finals[1] = entry
    target.append(
        obs={"a": np.zeros((2, 2)), "b": (np.zeros(2), np.zeros(2, np.int64))},
        reward=np.zeros(2),
        terminated=np.array([False, False]),
        truncated=np.array([False, True]),
        final_obs=finals,
    )
    batch = target.sample(1)
    assert batch.next_obs.a[0].tolist() == [5.0, 6.0]
    assert (batch.next_obs.b["0"][0], batch.next_obs.b["1"][0]) == (7.0, 8)


def test_groups_bring_their_finals_inside() -> None:
    target = memory(None, prey=rl.Group(obs=rl.Field((1,))), hunter=rl.Group(obs=rl.Field((2,)), reward=rl.Field((2,))))
    target.append(
        prey={"obs": [1.0], "final_obs": [2.0]},
        hunter={"obs": [3.0, 4.0], "final_obs": [5.0, 6.0], "reward": [1.0, 2.0]},
        terminated=False,
        truncated=True,
    )
    batch = target.sample(1)
    assert batch.prey.next_obs.tolist() == [[2.0]]
    assert batch.hunter.next_obs.tolist() == [[5.0, 6.0]]
    assert batch.hunter.reward.tolist() == [[1.0, 2.0]]
    error = refused(target, prey={"obs": [1.0]}, hunter={"obs": [0, 0], "tail": 1}, terminated=False, truncated=False)
    assert [problem.name for problem in error.problems] == ["hunter/tail", "hunter/reward"]


def test_a_block_is_refused_whole() -> None:
    target = memory()
    block = {key: np.stack([value] * 3) for key, value in step().items()}
    (problem,) = refused(target, "extend", **(block | {"obs": np.zeros((3, 2))})).problems
    assert (problem.name, problem.got) == ("obs", "[3, 2]")
    target.extend(**block)
    assert len(target) == 6


def test_images_as_floats_are_refused_with_the_remedy() -> None:
    target = memory(None, obs=rl.Field((4, 4), "uint8"))
    error = refused(target, obs=np.full((4, 4), 0.5), reward=0.0, terminated=False, truncated=False)
    assert [(problem.name, problem.got) for problem in error.problems] == [("obs", "0.5")]


def test_lanes_may_be_a_mask() -> None:
    target = memory()
    target.append(lanes=np.array([False, True]), obs=[[1, 2]], action=[0], reward=[0], terminated=[1], truncated=[0])
    assert target.episodes.lane.tolist() == [1]
    nothing = np.zeros(0)
    target.append(
        lanes=[], obs=np.zeros((0, 2)), action=[], reward=nothing, terminated=nothing > 0, truncated=nothing > 0
    )
    assert len(target) == 1


def test_finals_of_lanes_that_did_not_end_are_not_looked_at() -> None:
    target = memory(2, obs=rl.Field((1,), "uint8"))
    flags = {"terminated": np.zeros(2, bool), "truncated": np.array([False, True])}
    for finals in (np.array([[-1], [5]]), [np.zeros(9), [5]], np.array([[0.5], [5]], dtype=object), [None, [5]]):
        target.append(obs=np.zeros((2, 1), np.uint8), reward=np.zeros(2), **flags, final_obs=finals)
    assert (target.episodes.length[target.episodes.lane == 1] == 1).all()


def test_one_dict_a_lane() -> None:
    target = memory(2, obs={"a": rl.Field(), "b": rl.Field()})
    flags = {"reward": np.zeros(2), "terminated": [True, False], "truncated": [False, True]}
    rows = [{"a": 1.0, "b": 2.0}, {"a": 3.0, "b": 4.0}]
    target.append(obs=rows, **flags, final_obs=[None, {"a": 5.0, "b": 6.0}])
    batch = target.read([0, 1], [0, 0])
    assert batch.obs.b.tolist() == [2, 4]
    assert batch.next_obs.a.tolist() == [1, 5]
    error = refused(target, obs=rows, **flags, final_obs=[None, {"a": 5.0}])
    assert [problem.name for problem in error.problems] == ["final_obs/b"]


@pytest.mark.parametrize("finals", [np.array(None, dtype=object), np.array(1.0), np.zeros((5, 5)), object()])
def test_odd_finals_are_refused(finals: Any) -> None:
    """Found by review: a 0-d array here once crashed the core."""
    target = memory(None, obs=rl.Field())
    target.append(obs=0, reward=0, terminated=False, truncated=False)
    block = {"obs": np.zeros(3, "f4"), "reward": np.zeros(3, "f4"), "terminated": np.array([0, 0, 1], bool)}
    refused(target, "extend", **block, truncated=np.zeros(3, bool), final_obs=finals)


def test_a_view_of_the_memory_may_be_stored_again() -> None:
    target = rl.Memory(rl.Schema(obs=rl.Field((128,)), reward=None), 8, seed=0)
    for t in range(9):
        target.append(obs=np.full(128, t, "f4"), terminated=False, truncated=False)
    target.extend(obs=target["obs"][0:4], terminated=np.zeros(4, bool), truncated=np.zeros(4, bool))
    assert target["obs"][:, 0].tolist() == [8, 8, 1, 2, 3, 5, 6, 7]


def test_unaligned_arrays_are_taken() -> None:
    memory = rl.Memory(rl.Schema(obs=rl.Field((2,))), 10, seed=0)
    odd = np.frombuffer(b"?" + np.array([1.5, 2.5], np.float32).tobytes(), np.uint8)[1:].view(np.float32)
    assert not odd.flags.aligned
    memory.append(obs=odd, reward=0.0, terminated=True, truncated=False, final_obs=odd)
    swapped = np.array([1.5, 2.5], ">f4")
    memory.append(obs=swapped, reward=0.0, terminated=True, truncated=False)
    assert memory.sample(4).obs.tolist() == [[1.5, 2.5]] * 4
    values = np.frombuffer(b"?" * 33, np.uint8)[1:].view(np.float64)[:, None]
    flags = np.zeros((4, 1), bool)
    assert rl.targets.discounted_returns(values, terminated=flags).shape == (4, 1)


def test_masked_values_are_refused() -> None:
    """A mask says that a number is none; without one a masked array is an array."""
    memory = rl.Memory(rl.Schema(obs=rl.Field((2,))), 10, seed=0)
    step = {"reward": 0.0, "terminated": False, "truncated": False}
    hidden = np.ma.masked_array([1.0, 2.0], [False, True])
    with refusals.refused(StepError, "obs"):
        memory.append(obs=hidden, **step)
    with refusals.refused(StepError, "final_obs"):
        memory.append(obs=[1, 2], final_obs=hidden, **{**step, "truncated": True})
    with refusals.refused(StepError, "terminated"):
        memory.append(obs=[1, 2], **{**step, "terminated": np.ma.masked})
    memory.append(obs=np.ma.masked_array([1.0, 2.0], [False, False]), **step)
    memory.append(obs=[1, 2], **step)
    assert len(memory) == 2
    with refusals.refused(rl.errors.OptionError, "reward"):
        rl.targets.gae(hidden[:, None], np.zeros((2, 1)), np.zeros((2, 1)), terminated=np.zeros((2, 1), bool))
    with refusals.refused(rl.errors.OptionError, "serials"):
        memory.read([0, 0], hidden)


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
def test_errors_that_have_nothing_to_do_with_the_value_go_on(error: type[BaseException]) -> None:
    """They were once taken for a value that does not fit."""

    class Late:
        def __array__(self, *_: object, **__: object) -> np.ndarray[Any, Any]:
            raise error

    memory = rl.Memory(rl.Schema(obs=rl.Field()), 10)
    with pytest.raises(error):
        memory.append(obs=Late(), reward=0.0, terminated=False, truncated=False)
    assert len(memory) == 0
