"""A loss of one's own. Also: recollect train maddpg simple_spread --td-loss own_loss:huber"""

from torch.nn import functional as F

from recollect import train
from recollect.agents.maddpg import MADDPGConfig


def huber(td_error):
    """The Huber loss of each temporal-difference error, with its bend at 0.5."""
    return F.huber_loss(td_error, td_error.new_zeros(()).expand_as(td_error), reduction="none", delta=0.5)


if __name__ == "__main__":
    train.run(MADDPGConfig(td_loss=huber), env="simple_spread", steps=100_000)
