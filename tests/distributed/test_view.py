"""Shards on the page."""

import pytest
from telling_rows import SCHEMA, write

import relive as rl
from relive.distributed.view import ShardsView

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


D = rl.distributed


def test_shards_are_shown(ray) -> None:
    with D.Shards(SCHEMA, 4_000, shards=2, lanes=2, limiter=D.Ratio(4, min_size=50)) as shards:
        write(shards, 100)
        with shards.learner(8, group=1) as batches:
            for _ in range(10):
                next(batches)
            batches.refresh()
            found = ShardsView(shards).answer({"what": "summary"})
        assert [shard["steps"] for shard in found["shards"]] == [100, 100]
        assert found["limiter"]["samples"] == 4
        assert found["limiter"]["ratio"] == pytest.approx(80 / 150, abs=8 / 150)
        assert "error" in ShardsView(shards).answer({"what": "row", "lane": 0, "serial": 0})
