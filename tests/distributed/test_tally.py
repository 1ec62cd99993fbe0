"""Counts of inserts and draws, and who waits for whom."""

import random

from hypothesis import given
from hypothesis import strategies as st

from refusals import refused
from relive.distributed.tally import Ratio, Tally
from relive.errors import OptionError


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["inserted", "sampled"]), st.integers(1, 9)), max_size=30))
def test_tallies_come_to_the_same_in_any_order(events: list[tuple[int, str, int]]) -> None:
    sources = [Tally() for _ in range(3)]
    messages = []
    for source, name, more in events:
        sources[source].count(name, f"source-{source}", more)
        messages.append(sources[source].plain())
    merged = Tally()
    shuffled = messages * 2
    random.Random(0).shuffle(shuffled)
    for message in shuffled:
        merged.join(message)
    for name, place in (("inserted", 0), ("sampled", 1)):
        assert merged.totals[place] == sum(more for _, what, more in events if what == name)


def test_whoever_is_not_ahead_goes_on() -> None:
    limiter = Ratio(8, min_size=100, tolerance=80)
    tally = Tally()
    for inserted, sampled, insert, sample in (
        (0, 0, True, False),  # too little to learn from
        (99, 0, True, False),
        (100, 0, True, True),
        (110, 0, True, True),  # 80 samples to draw: as many as is tolerated
        (111, 0, False, True),
        (111, 8, True, True),
        (111, 168, True, True),
        (111, 169, True, False),
    ):
        tally.inserted["shard"], tally.sampled["learner"] = inserted, sampled
        tally.held["shard"] = [0, min(inserted, 100)]
        assert (limiter.may_insert(tally), limiter.may_sample(tally)) == (insert, sample), (inserted, sampled)


@given(st.floats(0.1, 100), st.integers(1, 1000), st.integers(0, 5000), st.integers(0, 50_000), st.floats(0, 1000))
def test_never_do_both_wait(samples: float, least: int, inserted: int, sampled: int, tolerance: float) -> None:
    limiter, tally = Ratio(samples, min_size=least, tolerance=tolerance), Tally()
    tally.inserted["shard"], tally.sampled["learner"], tally.held["shard"] = inserted, sampled, [0, inserted]
    assert limiter.may_insert(tally) or limiter.may_sample(tally)


def test_limiters_that_are_none_are_refused() -> None:
    for given_, about in (
        ({"samples": 0}, "samples"),
        ({"samples": 1, "tolerance": -1}, "tolerance"),
    ):
        with refused(OptionError, about):
            Ratio(**given_)  # type: ignore[arg-type]
