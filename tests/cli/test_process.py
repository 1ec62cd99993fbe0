"""What the command changes about its process."""

from __future__ import annotations

import torch

from refusals import refused
from relive.cli.process import settle_process
from relive.errors import OptionError


def test_threads_of_torch() -> None:
    before = torch.get_num_threads()
    try:
        settle_process(2)
        assert torch.get_num_threads() == 2
        with refused(OptionError, "threads", got="0"):
            settle_process(0)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
