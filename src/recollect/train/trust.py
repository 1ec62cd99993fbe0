"""Consent to code that a file names.

Settings in a file are data, but the name of an environment, of a network or of a loss may name a module, and importing
one runs it. A run's folder may come from anyone; so such a name counts only if whoever starts the command says so
(docs/train.md, "Runs of others").
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recollect.errors import OptionError
from recollect.learn.factories import named_module

__all__ = ["check_trust"]

_KNOWN = ("gymnasium", "mpe2", "pettingzoo")  # environments, and nothing that acts on being imported or made


def check_trust(env: str, settings: Mapping[str, Any], source: object, *, trust: bool) -> None:
    """Refuse an environment or a part of an algorithm that a file names, if that imports a module of the file's choice.

    Args:
        settings: Of the algorithm, as data.
        source: The file, for the message.
        trust: Whether that was agreed to.
    """
    if trust:
        return
    named = {key: (named_module(value), value) for key, value in settings.items()}
    module = _module(env)
    if module.split(".")[0] not in _KNOWN:
        named["env"] = (module, env)
    for key, (module, value) in named.items():
        if module:
            remedy = f"It imports {module!r}. If you know where this run is from, pass --trust (in Python: trust=True)."
            rule = "be trusted, since it runs code that the file names"
            raise OptionError(f"{key} in {source}", rule, repr(value), remedy)


def _module(env: str) -> str:
    """The module that making an environment by this name imports; empty if there is none."""
    kind, _, rest = env.partition(":")
    if kind == "pymarl":
        return rest.partition(":")[0]
    if kind == "pettingzoo":
        return "" if "/" in rest else rest
    return rest.partition(":")[0] if kind == "gymnasium" and ":" in rest else ""
