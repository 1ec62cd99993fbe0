"""One thread for torch: on a few busy cores two are slower than one."""

import torch

torch.set_num_threads(1)
