"""Rollouts: against lists of dicts, with ends anywhere, some lanes stepping, and in chunks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relive as rl
from refusals import refused

GAMMA, LAM = 0.9, 0.7


class Oracle:
    """Steps of each lane as a list of dicts, and GAE by its definition, one step at a time."""

    def __init__(self, lanes):
        self.lanes = [[] for _ in range(lanes)]

    def advantage(self, lane, at, last_value):
        """The sum of discounted errors from a step to the end of its episode, or of the rollout."""
        total, weight = 0.0, 1.0
        rows = self.lanes[lane]
        for step in range(at, len(rows)):
            row = rows[step]
            if row["terminated"]:
                after = 0.0
            elif row["truncated"]:
                after = value_of(row["final"])
            else:
                after = rows[step + 1]["value"] if step + 1 < len(rows) else last_value
            total += weight * (row["reward"] + GAMMA * after - row["value"])
            weight *= GAMMA * LAM
            if row["terminated"] or row["truncated"]:
                break
        return total


def value_of(obs):
    """What the critic would say of an observation."""
    return 0.01 * np.asarray(obs, np.float64)


class Written:
    """A rollout and its oracle, written alike. Observations tell everything apart."""

    def __init__(self, lanes, length, seed=0):
        self.rollout = rl.Rollout(
            rl.Schema(obs=rl.Field(), value=rl.Field(dtype="float64"), hidden=rl.Field((2,))), length, lanes, seed=seed
        )
        self.oracle = Oracle(lanes)
        self.obs = np.arange(lanes) * 1000.0
        self.begins = [True] * lanes

    def step(self, where, ends, rewards):
        """A step of some lanes; ends: 0 goes on, 1 terminated, 2 truncated, 3 both."""
        seen, after = self.obs[where], self.obs[where] + 1
        ends = np.asarray(ends)[: len(where)]
        terminated, truncated = (ends & 1) > 0, (ends & 2) > 0
        rewards = np.asarray(rewards, np.float64)[: len(where)]
        self.rollout.append(
            lanes=where,
            obs=seen,
            value=value_of(seen),
            hidden=np.stack([seen, -seen], 1),
            reward=rewards,
            terminated=terminated,
            truncated=truncated,
            final_obs=after,
        )
        for place, lane in enumerate(where):
            self.oracle.lanes[lane].append(
                {
                    "obs": seen[place],
                    "value": value_of(seen[place]),
                    "reward": float(np.float32(rewards[place])),
                    "terminated": bool(terminated[place]),
                    "truncated": bool(truncated[place]),
                    "final": after[place],
                    "starts": self.begins[lane],
                }
            )
            self.begins[lane] = bool(ends[place])
            self.obs[lane] = after[place] + (100 if ends[place] else 0)  # the next episode begins elsewhere

    def finish(self):
        ahead = self.rollout.bootstrap(obs=self.obs)
        assert ahead.obs[: len(self.obs)].tolist() == self.obs.tolist()  # never empty: networks choke on that
        self.rollout.finish(value_of(ahead.obs), gamma=GAMMA, lam=LAM)

    def expected(self):
        """Every step's advantage by its observation."""
        return {
            row["obs"]: self.oracle.advantage(lane, at, value_of(self.obs[lane]))
            for lane, rows in enumerate(self.oracle.lanes)
            for at, row in enumerate(rows)
        }

    def clear(self):
        self.rollout.clear()
        self.oracle = Oracle(len(self.oracle.lanes))


steps = st.lists(
    st.tuples(
        st.sets(st.integers(0, 2), min_size=1),
        st.lists(st.sampled_from([0, 0, 0, 1, 2, 3]), min_size=3, max_size=3),
        st.lists(st.floats(-2, 2, width=32), min_size=3, max_size=3),
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=150, deadline=None)
@given(st.lists(steps, min_size=1, max_size=3), st.integers(1, 7), st.integers(1, 5))
def test_every_step_is_in_every_epoch_with_its_own_advantage(rollouts, size, length):
    written = Written(3, 12)
    for some in rollouts:
        for where, ends, rewards in some:
            written.step(sorted(where), ends, rewards)
        written.finish()
        expected = written.expected()
        count = len(expected)
        batches = list(written.rollout.epochs(2, size))
        assert max(len(b.obs) for b in batches) - min(len(b.obs) for b in batches) <= 1
        assert max(len(b.obs) for b in batches) <= size
        order = np.concatenate([batch.obs for batch in batches])
        for epoch in (order[:count], order[count:]):
            assert sorted(epoch) == sorted(expected)
        for batch in batches:
            for obs, advantage, returns in zip(batch.obs, batch.advantage, batch.returns, strict=True):
                assert advantage == pytest.approx(expected[obs], abs=1e-9)
                assert returns == pytest.approx(expected[obs] + value_of(obs), abs=1e-9)
        check_sequences(written, expected, size, length)
        written.clear()


def check_sequences(written, expected, size, length):
    found = []
    for batch in written.rollout.epochs(1, size, length=length, start_fields="hidden"):
        assert batch.obs.shape == batch.mask.shape == (len(batch.lanes), length)
        assert (batch.mask.sum(1) == batch.lengths).all()
        for row, lane in enumerate(batch.lanes):
            real = batch.mask[row]
            assert real[0]
            assert not (np.diff(real.astype(int)) > 0).any()
            assert batch.hidden[row].tolist() == [batch.obs[row, 0], -batch.obs[row, 0]]  # of the first step
            assert not batch.obs[row][~real].any()
            assert not batch.advantage[row][~real].any()
            steps = {step["obs"]: step for step in written.oracle.lanes[lane]}
            seen = batch.obs[row][real]
            rows = [step["obs"] for step in written.oracle.lanes[lane]]
            first = rows.index(seen[0])
            assert first % length == 0
            assert rows[first : first + length] == seen.tolist()
            for at, obs in enumerate(seen):
                assert batch.starts[row, at] == steps[obs]["starts"]
                assert batch.terminated[row, at] == steps[obs]["terminated"]
                assert batch.truncated[row, at] == steps[obs]["truncated"]
                assert batch.advantage[row, at] == pytest.approx(expected[obs], abs=1e-9)
                found.append(obs)
    assert sorted(found) == sorted(expected)


def test_three_numbers_on_paper():
    rollout = rl.Rollout(rl.Schema(obs=rl.Field(), value=rl.Field()), length=4)
    for t, (ended, value) in enumerate([(False, 1.0), (True, 2.0), (False, 3.0)]):
        rollout.append(obs=t, value=value, reward=1.0, terminated=False, truncated=ended, final_obs=10.0)
    ahead = rollout.bootstrap(obs=20.0)
    assert ahead.obs.tolist() == [20.0, 10.0]
    rollout.finish([4.0, 8.0], gamma=0.5, lam=0.5)
    (batch,) = rollout.epochs(1, 3)
    # errors: 1 + .5 * 2 - 1 = 1; 1 + .5 * 8 - 2 = 3; 1 + .5 * 4 - 3 = 0. Advantages: 1 + .25 * 3, 3, 0.
    assert dict(zip(batch.obs.tolist(), batch.advantage.tolist(), strict=True)) == {0.0: 1.75, 1.0: 3.0, 2.0: 0.0}


def test_groups_have_advantages_of_their_own_and_share_a_reward():
    agents = {"obs": rl.Field((2, 3)), "value": rl.Field((2,))}
    schema = rl.Schema(red=rl.Group(agents), blue=rl.Group(agents), reward=rl.Field())
    rollout = rl.Rollout(schema, length=2, lanes=1)
    flags = {"terminated": [False], "truncated": [False]}
    for value in (1.0, 2.0):
        seen = {"obs": np.zeros((1, 2, 3)), "value": [[value, 0.0]]}
        rollout.append(red=seen, blue={**seen, "value": [[0.0, value]]}, reward=[1.0], **flags)
    now = {f"{name}/obs": np.zeros((1, 2, 3)) for name in ("red", "blue")}
    assert rollout.bootstrap(**now).red.obs.shape == (1, 2, 3)
    rollout.finish({"red/value": [[4.0, 0.0]], "blue/value": [[0.0, 0.0]]}, gamma=1.0, lam=0.0)
    (batch,) = rollout.epochs(1, 2)
    first = int(np.argmin(batch.serials))
    assert batch.red.advantage[first].tolist() == [2.0, 1.0]  # 1 + 2 - 1; 1 + 0 - 0
    assert batch.red.advantage[1 - first].tolist() == [3.0, 1.0]  # 1 + 4 - 2
    assert batch.blue.advantage[1 - first].tolist() == [1.0, -1.0]


def test_the_order_depends_on_the_seed_and_is_another_every_time():
    def orders(seed):
        written = Written(2, 30, seed)
        found = []
        for _ in range(2):
            for _ in range(30):
                written.step([0, 1], [0, 0], [0.0, 0.0])
            found += [batch.serials.tolist() for batch in written.rollout.epochs(2, 60)]
            found += [batch.serials.tolist() for batch in written.rollout.epochs(1, 60)]
            written.clear()
        return [[serial - min(order) for serial in order] for order in found]

    assert orders(1) == orders(1)
    assert orders(1) != orders(2)
    assert len({tuple(order) for order in orders(1)}) == 6


def test_a_saved_rollout_goes_on_alike(tmp_path):
    written = Written(2, 5, seed=3)
    for _ in range(3):
        written.step([0, 1], [0, 2], [1.0, 2.0])
    written.rollout.save(tmp_path / "kept")
    again = rl.Rollout.load(tmp_path / "kept")
    assert (again.length, len(again), again.lanes) == (5, 6, 2)
    for rollout in (written.rollout, again):
        rollout.finish(value_of(rollout.bootstrap(obs=written.obs).obs))
    for one, two in zip(written.rollout.epochs(2, 4), again.epochs(2, 4), strict=True):
        assert one.keys() == two.keys()
        assert all((one[key] == two[key]).all() for key in one)


def test_after_a_cut_the_unfinished_step_is_what_was_seen_last():
    written = Written(1, 5)
    for _ in range(3):
        written.step([0], [0], [1.0])
    written.rollout.cut()
    assert len(written.rollout) == 2
    assert written.rollout.bootstrap(obs=[77.0]).obs.tolist() == [77.0, 2.0]
    (batch,) = written.rollout.epochs(1, 5)
    assert batch.truncated[np.argmax(batch.serials)]
    for _ in range(3):
        written.rollout.append(
            obs=[50.0], value=[0.0], hidden=[[0, 0]], reward=[0.0], terminated=[False], truncated=[False]
        )
    assert written.rollout.full


def test_what_cannot_be_is_said():
    written = Written(2, 2)
    rollout = written.rollout
    with refused(rl.errors.NotEnoughRows, "rollout", got="none"):
        rollout.bootstrap(obs=[0, 0])
    with refused(rl.errors.OptionError, "length", got="0"):
        rl.Rollout(rollout.schema, 0)
    written.step([0, 1], [0, 0], [0.0, 0.0])
    written.step([0], [0], [0.0])
    with refused(rl.errors.OptionError, "rollout", got="2 of 2"):
        written.step([0, 1], [0, 0], [0.0, 0.0])
    assert len(rollout) == 3
    written.step([1], [0], [0.0])
    with refused(rl.errors.OptionError, "last", got="nothing"):
        rollout.bootstrap()
    with refused(rl.errors.OptionError, "obs", got="[1]"):
        rollout.bootstrap(obs=[1.0])
    with refused(rl.errors.OptionError, "next_value", got="[1]"):
        rollout.finish([1.0])
    with refused(rl.errors.OptionError, "next_value", got="other"):
        rollout.finish({"other": 1})
    with refused(rl.errors.OptionError, "start_fields", got="'hidden'"):
        rollout.epochs(1, 2, start_fields="hidden")
    with refused(rl.errors.OptionError, "size", got="0"):
        rollout.epochs(1, 0)
    plain = rl.Rollout(rl.Schema(obs=rl.Field()), 2)
    plain.append(obs=1.0, reward=1.0, terminated=True, truncated=False)
    with refused(rl.errors.OptionError, "schema"):
        plain.finish([])


def test_rewards_may_have_another_name() -> None:
    found = []
    for name in ("reward", "rewards"):
        rollout = rl.Rollout(rl.Schema(obs=rl.Field(), value=rl.Field(), **{name: rl.Field()}), length=3, lanes=1)
        for t in range(3):
            rollout.append(obs=[t], value=[0.5], terminated=[t == 1], truncated=[False], **{name: [t]})
        rollout.finish(0.25 * rollout.bootstrap(obs=[4.0]).obs, gamma=0.9, lam=0.8)
        found.append(rollout["advantage"].tolist())
    assert found[0] == found[1]
    rollout = rl.Rollout(rl.Schema(obs=rl.Field(), value=rl.Field(), reward=None), length=3, lanes=1)
    rollout.append(obs=[0], value=[0.5], terminated=[False], truncated=[False])
    with pytest.raises(rl.errors.OptionError):
        rollout.finish(rollout.bootstrap(obs=[4.0]).obs)
    both = {name: rl.Field(role="reward") for name in ("bonus", "score")}
    rollout = rl.Rollout(rl.Schema(obs=rl.Field(), value=rl.Field(), **both), length=3, lanes=1)
    rollout.append(obs=[0], value=[0.5], bonus=[1], score=[2], terminated=[False], truncated=[False])
    with pytest.raises(rl.errors.OptionError):
        rollout.finish(rollout.bootstrap(obs=[4.0]).obs)
