"""PyMARL's episode buffer, in place of ``components.episode_buffer`` (docs/compat.md).

>>> from recollect.compat.pymarl import EpisodeBatch
>>> batch = EpisodeBatch({"reward": {"vshape": (1,)}}, {}, batch_size=1, max_seq_length=3)
>>> batch.update({"reward": [(2.0,)]}, ts=1)
>>> batch["reward"][0, :, 0].tolist()
[0.0, 2.0, 0.0]
"""

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError:
    from recollect.errors import MissingExtra

    raise MissingExtra("torch", "torch") from None

from recollect.compat.pymarl.batch import EpisodeBatch
from recollect.compat.pymarl.prioritized import PrioritizedReplayBuffer
from recollect.compat.pymarl.replay import ReplayBuffer
from recollect.compat.pymarl.transforms import OneHot, Transform

__all__ = ["EpisodeBatch", "OneHot", "PrioritizedReplayBuffer", "ReplayBuffer", "Transform"]
