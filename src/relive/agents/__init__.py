"""One file an algorithm: its settings as a frozen dataclass, its networks, its losses, its update."""

from relive.agents.registry import register

__all__ = ["register"]
