"""Batches: named arrays, nested like the schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self, final

from relive.types import Array

__all__ = ["Batch", "Nest", "describe", "entry", "flat", "nested", "sample_count"]


class Nest(dict[str, Any]):
    """A dict whose entries are also attributes.

    >>> Nest(obs=Nest(pose=3)).obs.pose
    3
    """

    __slots__ = ()

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def copy(self) -> Self:
        """A shallow copy."""
        return type(self)(self)

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"name must be one of {', '.join(self)}, got {name!r}") from None


@final
class Batch(Nest):
    """Named arrays of a sample, nested like the schema.

    Beside the fields it holds ``terminated``, ``truncated``, ``weights``, and ``lanes`` and ``serials``, by which the
    memory recognises the rows later; windows add what they compute (``next_...``, ``discount``, ``mask``,
    ``lengths``). ``size`` is the number of samples B, ``len`` the number of entries.
    ``batch | {...}`` is a plain dict.
    """

    __slots__ = ("action_keys",)

    action_keys: frozenset[str]
    """Paths of the entries that are actions, by the schema's roles; not set if a batch was made by hand."""

    if TYPE_CHECKING:  # for editors; what there is depends on schema and window
        obs: Any
        action: Any
        next_obs: Any
        reward: Array
        discount: Array
        terminated: Array
        truncated: Array
        weights: Array
        mask: Array
        lengths: Array
        lanes: Array
        serials: Array

    @property
    def size(self) -> int:
        """The number of samples B, whatever the window."""
        return sample_count(self)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("action_keys", "size"):  # not entries; size cannot be set
            object.__setattr__(self, name, value)
        else:
            self[name] = value

    def copy(self) -> Batch:
        """A shallow copy."""
        batch = Batch(self)
        if (keys := getattr(self, "action_keys", None)) is not None:
            batch.action_keys = keys
        return batch

    def __repr__(self) -> str:
        return f"Batch({', '.join(describe(key, value) for key, value in self.items())})"


def sample_count(batch: dict[str, Any]) -> int:
    """The number of samples of a batch: one a row that was drawn, or else one an entry along the first axis."""
    rows = batch.get("serials")
    if rows is None:
        rows = next((array for _, array in flat(batch)), ())
    return len(rows)


def describe(key: str, value: Any) -> str:
    """An entry in brief: its name, dtype and shape."""
    if isinstance(value, dict):
        return f"{key}: ({', '.join(describe(inner, below) for inner, below in value.items())})"
    shape = getattr(value, "shape", None)
    return f"{key}: {value.dtype}{list(shape)}" if shape is not None else f"{key}: {value!r}"


def entry(batch: Batch, path: str) -> Any:
    """The entry of a batch at a path such as ``"obs/camera"``."""
    here: Any = batch
    for part in path.split("/"):
        here = here[part]
    return here


def nested(flat: dict[str, Any], action_keys: frozenset[str] | None = None) -> Batch:
    """A batch from entries whose keys are paths with slashes."""
    batch = Batch()
    if action_keys is not None:
        batch.action_keys = action_keys
    for path, value in flat.items():
        *above, last = path.split("/")
        here: dict[str, Any] = batch
        for part in above:
            here = here.setdefault(part, Nest())
        here[last] = value
    return batch


def flat(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Paths and entries of a batch, in its order."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from flat(value, f"{above}{key}/")
        else:
            yield f"{above}{key}", value
