"""Consent to importing code that a run's files name.

Settings in a file are data, but the name of an environment, of a network or of a loss may name a module, and importing
one runs it. A run's folder may come from anyone; so such a name counts only if whoever starts the command says so
(docs/train.md, "Runs of others").
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from relive.errors import OptionError
from relive.learn.factories import named_module

__all__ = ["check_cluster", "check_trust", "import_modules", "own_module"]

_KNOWN = ("gymnasium", "lbforaging", "magent2", "mpe2", "pettingzoo", "rware")
"""Environments, and nothing that acts on being imported or made."""


_OWN_CLUSTERS = ("", "auto", "local")
"""No cluster, the one of this machine or of the user's environment variables, and a new one."""


def check_trust(env: str, settings: Mapping[str, Any], imports: Iterable[str], source: object, *, trust: bool) -> None:
    """Refuse what a file names, if that imports modules of the file's choice; says all of them at once.

    Args:
        settings: Of the algorithm, as data.
        imports: Modules that the file wants imported; those that are imported already run nothing any more.
        source: The file, for the message.
        trust: Whether that was agreed to.
    """
    if trust:
        return
    named = {key: (named_module(value), value) for key, value in settings.items()}
    module = _module(env)
    if module.split(".")[0] not in _KNOWN:
        named["env"] = (module, env)
    found = {key: (module, value) for key, (module, value) in named.items() if module}
    fresh = [module for module in imports if module not in sys.modules]
    if fresh:
        found["imports"] = (", ".join(fresh), ", ".join(fresh))
    if found:
        modules = ", ".join(dict.fromkeys(repr(module) for module, _ in found.values()))
        remedy = f"That imports {modules}. If you know where this run is from, pass --trust (in Python: trust=True)."
        values = ", ".join(repr(value) for _, value in found.values())
        rule = "be trusted, since the file names code to run"
        raise OptionError(f"{', '.join(found)} in {source}", rule, values, remedy)


def check_cluster(address: str, source: object, *, trust: bool) -> None:
    """Refuse to join a Ray cluster elsewhere because a file says so: a cluster runs code in the programs that join."""
    if not trust and address not in _OWN_CLUSTERS:
        remedy = (
            "If you know where this file is from, pass --trust (in Python: trust=True), or type the address yourself."
        )
        raise OptionError(f"cluster in {source}", "be one of this machine, or be trusted", repr(address), remedy)


def import_modules(names: Iterable[str]) -> None:
    """Import modules, which register algorithms and environments."""
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise OptionError("import", "name a module that can be imported", repr(name), str(error)) from None


def own_module(thing: object) -> str:
    """The module of a class or function that is not ours; empty if it is, or if nothing can import it again."""
    module = getattr(thing, "__module__", "") or ""
    return "" if module == "__main__" or module.split(".")[0] == "relive" else module


def _module(env: str) -> str:
    """The module that making an environment by this name imports; empty if there is none."""
    kind, _, rest = env.partition(":")
    if kind == "pymarl":
        return rest.partition(":")[0]
    if kind == "pettingzoo":
        return "" if "/" in rest else rest
    return rest.partition(":")[0] if kind == "gymnasium" and ":" in rest else ""
