"""A loss of one's own, in MADDPG on simple_spread.

python examples/own_loss.py
cd examples && relive train maddpg simple_spread --td-loss own_loss:huber
"""

import argparse

from torch.nn import functional as F

import relive
from relive.agents.maddpg import MADDPGConfig


def huber(td_error):
    """The Huber loss of each temporal-difference error, with its bend at 0.5."""
    return F.huber_loss(td_error, td_error.new_zeros(()).expand_as(td_error), reduction="none", delta=0.5)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100_000)
    steps = parser.parse_args().steps
    result = relive.train(
        MADDPGConfig(td_loss=huber),
        env="simple_spread",
        steps=steps,
        eval_every=steps // 4,
        video=False,
    )
    print(f"return {result.metrics['return']:.1f}  everything else is in {result.folder}")
