"""Consent to code that a file names.

Settings in a file are data, but the name of an environment may name a module, and importing one runs it. A run's
folder may come from anyone; so such a name counts only if whoever starts the command says so (docs/train.md, "Runs of
others").
"""

from __future__ import annotations

from recollect.errors import OptionError

__all__ = ["check_trust"]

_KNOWN = ("gymnasium", "mpe2", "pettingzoo")  # environments, and nothing that acts on being imported or made


def check_trust(env: str, source: object, *, trust: bool) -> None:
    """Refuse an environment that a file names if making it imports a module of the file's choice.

    Args:
        source: The file, for the message.
        trust: Whether that was agreed to.
    """
    module = _module(env)
    if trust or not module or module.split(".")[0] in _KNOWN:
        return
    raise OptionError(
        f"env in {source}",
        "be trusted, since it runs code that the file names",
        repr(env),
        f"It imports {module!r}. If you know where this run is from, pass --trust (in Python: trust=True).",
    )


def _module(env: str) -> str:
    """The module that making an environment by this name imports; empty if there is none."""
    kind, _, rest = env.partition(":")
    if kind == "pymarl":
        return rest.partition(":")[0]
    if kind == "pettingzoo":
        return "" if "/" in rest else rest
    return rest.partition(":")[0] if kind == "gymnasium" and ":" in rest else ""
