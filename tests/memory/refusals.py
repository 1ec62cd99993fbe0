"""What errors are about. Tests compare types and names; the sentences are all in ``every_message.txt``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any

import pytest

from relive.errors import ReliveError


@contextmanager
def refused(kind: type[Exception], *names: str, got: str | None = None) -> Iterator[Any]:
    """The block raises an error of this kind about these names, in this order.

    Args:
        names: Of a path, its last part is enough; ``*`` stands for what differs every time.
        got: The value that was given, as the error shows it.
    """
    with pytest.raises(kind) as caught:
        yield caught
    error: Any = caught.value
    assert isinstance(error, ReliveError), repr(error)
    problems = getattr(error, "problems", None) or [error.problem]
    found = [problem.name for problem in problems]
    assert len(found) == len(names), error
    for each, name in zip(found, names, strict=True):
        assert each == name or fnmatchcase(each, name) or fnmatchcase(each, f"*/{name}"), error
    assert got is None or problems[0].got == got, error
