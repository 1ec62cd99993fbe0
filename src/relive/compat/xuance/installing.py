"""These modules in the place of XuanCe's own, for programs that are not to be changed."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import final

from relive.errors import OptionError

__all__ = ["install", "version_of"]

_OURS = "relive.compat.xuance"
_NAMES = ("memory_tools", "memory_tools_marl", "memory_offline")


def install(version: str | None = None) -> str:
    """Make ``xuance.common.memory_tools``, ``memory_tools_marl`` and ``memory_offline`` mean relive's modules.

    Args:
        version: XuanCe's, such as ``"1.4.4"``; None: the one that would be imported.

    Returns:
        The version.

    Raises:
        OptionError: If XuanCe was imported already, is not there, or is of a version whose interface is not known.
    """
    if "xuance" in sys.modules:
        raise OptionError("install", "be called before xuance is imported", "afterwards", "Move it to the first line.")
    version = version_of() if version is None else version
    numbers = tuple(map(int, re.findall(r"\d+", version)[:2]))
    if len(numbers) != 2 or not (1, 0) <= numbers < (1, 5):
        raise OptionError("version", "be from 1.0 to 1.4 of XuanCe", version, "Change the import lines instead.")
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Finder)]
    sys.meta_path.insert(0, _Finder(numbers))
    return version


def version_of() -> str:
    """The version of XuanCe that would be imported; it is not."""
    found = find_spec("xuance")
    if found is None or found.origin is None:
        raise OptionError("xuance", "be installed, or its folder on the path", "none", "Try pip install xuance.")
    written = re.search(r"__version__\s*=\s*['\"]v?([\d.]+)", Path(found.origin).read_text())
    if written is None:
        raise OptionError("xuance", "tell its version", found.origin, "Pass it: install(version='1.4.4').")
    return written[1]


@final
class _Finder(MetaPathFinder, Loader):
    """Finds three modules, and fills them with ours."""

    def __init__(self, version: tuple[int, ...]) -> None:
        self._version = version

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """The three; what XuanCe did not have then is not found here."""
        package, _, name = fullname.rpartition(".")
        if package != "xuance.common" or name not in _NAMES or (name == "memory_offline" and self._version < (1, 3)):
            return None
        return ModuleSpec(fullname, self, origin=f"{_OURS}.{name}")

    def exec_module(self, module: ModuleType) -> None:
        """Our names by theirs."""
        name = module.__name__.rpartition(".")[2]
        generation = f"{_OURS}.v1_1" if self._version < (1, 2) else _OURS
        ours = import_module(f"{generation}.{name}")
        vars(module).update({key: getattr(ours, key) for key in ours.__all__})
        module.__doc__ = ours.__doc__
        if self._version == (1, 2) and name == "memory_tools_marl":  # 1.2 still had these as they were
            older = import_module(f"{_OURS}.v1_1.{name}")
            vars(module).update({key: getattr(older, key) for key in ("COMA_Buffer", "COMA_Buffer_RNN")})
