"""PyMARL's episode buffer, in place of ``components.episode_buffer`` (docs/compat.md).

>>> from relive.compat.pymarl import EpisodeBatch
>>> batch = EpisodeBatch({"reward": {"vshape": (1,)}}, {}, batch_size=1, max_seq_length=3)
>>> batch.update({"reward": [(2.0,)]}, ts=1)
>>> batch["reward"][0, :, 0].tolist()
[0.0, 2.0, 0.0]
"""

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError:
    from relive.errors import MissingExtra

    raise MissingExtra("torch", "torch") from None

from relive.compat.pymarl.batch import EpisodeBatch
from relive.compat.pymarl.prioritized import PrioritizedReplayBuffer
from relive.compat.pymarl.replay import ReplayBuffer
from relive.compat.pymarl.transforms import OneHot, Transform

__all__ = ["EpisodeBatch", "OneHot", "PrioritizedReplayBuffer", "ReplayBuffer", "Transform"]
