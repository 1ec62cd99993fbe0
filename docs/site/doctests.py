"""For griffe: examples in docstrings become blocks of code, which Markdown would take for quotations."""

from __future__ import annotations

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"(?:^>>> .*\n?(?:^(?!>>> )(?!\s*$).*\n?)*)+", re.M)


class Doctests(griffe.Extension):
    """Examples as they are written here: a paragraph of prompts and what they print."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Fence the examples of one docstring."""
        if obj.docstring is not None and ">>>" in obj.docstring.value:
            text = re.sub(r"\s*# doctest: .*", "", obj.docstring.value)
            obj.docstring.value = _EXAMPLE.sub(lambda found: f"```pycon\n{found.group().rstrip()}\n```\n", text)
