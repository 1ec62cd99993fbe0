"""Values made from other values of a step."""

from __future__ import annotations

from typing import Any, Protocol

import torch

__all__ = ["OneHot", "Transform"]


class Transform(Protocol):
    """Makes one value of a step from another."""

    def transform(self, tensor: torch.Tensor) -> torch.Tensor:
        """What is made of values ``[..., *vshape]``."""
        ...

    def infer_output_info(self, vshape_in: Any, dtype_in: Any) -> tuple[Any, Any]:
        """Shape and dtype of what is made of values of this shape and dtype."""
        ...


class OneHot:
    """Numbers ``[..., 1]`` as float32 vectors ``[..., out_dim]`` with a one at their place."""

    def __init__(self, out_dim: int) -> None:
        self.out_dim = out_dim

    def transform(self, tensor: torch.Tensor) -> torch.Tensor:
        """The vectors."""
        made = torch.zeros(*tensor.shape[:-1], self.out_dim, dtype=torch.float32, device=tensor.device)
        return made.scatter_(-1, tensor.long(), 1.0)

    def infer_output_info(self, vshape_in: Any, dtype_in: Any) -> tuple[Any, Any]:  # noqa: ARG002
        """Shape and dtype of the vectors."""
        return (self.out_dim,), torch.float32
