"""The whole exception tree.

    ReliveError
    ├── OptionError (ValueError)        an argument of a constructor or call
    ├── SchemaError (ValueError)        fields or spaces that cannot be remembered
    ├── StepError (ValueError)          a step that does not fit the schema; nothing was stored
    ├── PriorityError (ValueError)      priorities that are not finite numbers
    ├── NotEnoughRows (LookupError)     fewer rows than a batch needs
    ├── StaleRows (LookupError)         rows asked for by serial that cannot be read
    ├── StorageError (RuntimeError)     a mapped file or shared segment that cannot be used
    │   └── JournalError                a journal that could not be written; how many steps were stored
    ├── SnapshotError (ValueError)      a file of a snapshot that cannot be loaded
    ├── DatasetError (ValueError)       a dataset that cannot be read or written
    ├── EnvError (RuntimeError)         an environment, or a process with some, that failed
    ├── RunError (RuntimeError)         a training run that cannot begin or go on
    └── MissingExtra (ImportError)      an optional package is not installed

Every message reads ``<name> must <rule>, got <value>`` and then says what to do. The parts are kept as attributes.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

__all__ = [
    "DatasetError",
    "EnvError",
    "JournalError",
    "MissingExtra",
    "NotEnoughRows",
    "OptionError",
    "PriorityError",
    "Problem",
    "ReliveError",
    "RunError",
    "SchemaError",
    "SnapshotError",
    "StaleRows",
    "StepError",
    "StorageError",
    "install_hint",
]


INSTALLED_FROM = "."
"""The source that ``pip install`` takes: a clone of the repository. From the first release on: ``relive``."""


def install_hint(extra: str) -> str:
    """The command that installs an extra."""
    where = " in a clone of relive's repository" if INSTALLED_FROM == "." else ""
    return f"Install with pip install '{INSTALLED_FROM}[{extra}]'{where}."


@dataclass(frozen=True, slots=True)
class Problem:
    """One broken rule: the name, the rule, the value and the remedy."""

    name: str
    rule: str
    got: str
    remedy: str = ""

    def __str__(self) -> str:
        text = f"{self.name} must {self.rule}, got {self.got}"
        return f"{text}. {self.remedy}" if self.remedy else text


class ReliveError(Exception):
    """The base of all errors of this package."""


class _OneProblem(ReliveError):
    """An error about one broken rule."""

    def __init__(self, name: str, rule: str, got: object, remedy: str = "") -> None:
        self.problem = Problem(name, rule, str(got), remedy)
        super().__init__(str(self.problem))

    def __reduce__(self) -> tuple[Any, ...]:
        problem = self.problem
        return type(self), (problem.name, problem.rule, problem.got, problem.remedy)


class OptionError(_OneProblem, ValueError):
    """An argument that breaks its rule."""


class SchemaError(_OneProblem, ValueError):
    """A field or space that cannot be remembered."""


class PriorityError(_OneProblem, ValueError):
    """Priorities that are not finite numbers."""


class NotEnoughRows(_OneProblem, LookupError):
    """Fewer rows than a batch needs."""


class StaleRows(_OneProblem, LookupError):
    """Rows asked for by lane and serial that cannot be read."""


class StorageError(_OneProblem, RuntimeError):
    """A mapped file or shared segment that cannot be used."""


class JournalError(StorageError):
    """A journal that could not be written. ``stored`` of the block's steps are in memory and in the journal, the others
    in neither; ``errno`` is the system's reason.
    """

    def __init__(self, stored: int, steps: int, errno: int) -> None:
        self.stored, self.steps, self.errno = stored, steps, errno
        remedy = "Make room, then append the others again."
        super().__init__("journal", "take every step", os.strerror(errno), f"{stored} of {steps} were stored. {remedy}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.stored, self.steps, self.errno)


class SnapshotError(_OneProblem, ValueError):
    """A file of a snapshot that cannot be loaded; the problem's name is the file."""


class DatasetError(_OneProblem, ValueError):
    """A dataset that cannot be read or written."""


class EnvError(_OneProblem, RuntimeError):
    """An environment, or a process that runs some, that failed."""


class RunError(_OneProblem, RuntimeError):
    """A training run that cannot begin or go on."""


class StepError(ReliveError, ValueError):
    """A step that does not fit the schema; nothing of it was stored. ``problems`` lists every broken rule."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        self.problems = problems
        lines = [str(problem) for problem in problems]
        if len(lines) == 1:
            super().__init__(f"{lines[0]} (nothing was stored)")
        else:
            super().__init__("\n- ".join([f"the step has {len(lines)} problems; nothing was stored:", *lines]))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.problems,)


class MissingExtra(ReliveError, ImportError):
    """An optional package is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        self.package = package
        self.extra = extra
        super().__init__(f"{package} {'are' if ' and ' in package else 'is'} not installed. {install_hint(extra)}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.package, self.extra)
