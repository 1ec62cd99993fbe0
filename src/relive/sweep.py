"""``python -m relive.sweep``: removes shared memory that nobody uses any more."""

from relive.memory import Shared

__all__: list[str] = []

if __name__ == "__main__":
    names = Shared.sweep()
    print(f"removed {', '.join(names)}" if names else "nothing to remove")
