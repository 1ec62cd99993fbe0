"""Flags of ``relive train`` from the fields of settings: their help, presets, and what is refused."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import textwrap
import tomllib
import typing
from collections.abc import Mapping, Sequence, Set
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, final

import tyro

from relive.agents import registry
from relive.cli.importing import taken
from relive.errors import OptionError
from relive.messages import did_you_mean
from relive.training import RunConfig
from relive.training.settings import SYNONYMS

__all__ = ["Flags", "parsed_settings", "whole_number"]

_OTHERS = {
    "folder": "The run's folder, instead of a new one under runs/.",
    "option": "An option of the environment, such as N=5; may be repeated.",
    "threads": "Torch threads. One is fastest for small networks.",
    "seeds": "Train with each of these seeds, then plot all of them as one curve.",
    "preset": "Settings of published code, which other flags override.",
}


@final
@dataclasses.dataclass(frozen=True)
class Flags:
    """Parsed flags."""

    algorithm: Any
    run: Any
    folder: Path | None
    option: tuple[str, ...]
    seeds: tuple[int, ...]
    threads: int


def parsed_settings(algorithm: Any, settings: RunConfig, arguments: list[str]) -> Flags:
    """Settings of an algorithm and of a run, overridden by flags."""
    preset = _preset(algorithm, arguments)
    _refuse_synonyms(arguments, {f.name for kind in (preset, settings) for f in dataclasses.fields(kind)})
    chosen = _flags(preset, settings, _plain_numbers(_plain_numbers(arguments, settings), preset))
    options = {**settings.env_options, **dict(map(_option, chosen.option))}
    run = dataclasses.replace(chosen.run, env_options=options, imports=settings.imports)
    return dataclasses.replace(chosen, run=run)


def _flags(algorithm: Any, settings: RunConfig, arguments: Sequence[str]) -> Flags:
    """Settings overridden by flags."""
    kind = type(algorithm)
    # The fields of both side by side; the environment's options and imports have flags of their own.
    fields: list[Any] = [
        (f.name, f.type, dataclasses.field(default=getattr(given, f.name)))
        for given in (settings, algorithm)
        for f in _typed(given)
        if f.name not in ("env_options", "imports")
    ]
    fields += [
        ("folder", Path | None, dataclasses.field(default=None)),
        ("option", tyro.conf.UseAppendAction[tuple[str, ...]], dataclasses.field(default=())),
        ("seeds", tuple[int, ...], dataclasses.field(default=())),
        ("threads", int, dataclasses.field(default=1)),
    ]
    presets = getattr(algorithm, "presets", {})
    if presets:  # parsed already: listed for --help
        fields.append(("preset", Literal[tuple(presets)] | None, dataclasses.field(default=None)))
    made: Any = dataclasses.make_dataclass("flags", fields, frozen=True)
    made.__doc__ = _documented(registry.summary(algorithm), type(settings), kind)
    found = tyro.cli(made, args=list(arguments), prog=f"relive train {algorithm.name} ENVIRONMENT")
    own = {f.name for f in dataclasses.fields(algorithm)}
    values = {f.name: getattr(found, f.name) for f in dataclasses.fields(found)}
    return Flags(
        dataclasses.replace(algorithm, **{n: v for n, v in values.items() if n in own}),
        dataclasses.replace(settings, **{n: v for n, v in values.items() if n not in {*own, *_OTHERS}}),
        found.folder,
        found.option,
        found.seeds,
        found.threads,
    )


@final
@dataclasses.dataclass(frozen=True)
class _Typed:
    name: str
    type: Any


def _typed(settings: Any) -> list[_Typed]:
    """Fields with resolved types."""
    hints = typing.get_type_hints(type(settings), include_extras=True)
    # A custom network is named on the command line; in Python it may be a function too.
    return [_Typed(f.name, str if hints[f.name] is Any else hints[f.name]) for f in dataclasses.fields(settings)]


def _documented(line: str, *kinds: type[Any]) -> str:
    """Help of flags, from the docstrings of fields."""
    lines = [line, "", "Args:"]
    for kind in kinds:
        for name, text in _texts(kind).items():
            lines.append(f"    {name}: {text}")
    lines += [f"    {name}: {text}" for name, text in _OTHERS.items()]
    return "\n".join(lines)


def _texts(kind: type[Any]) -> dict[str, str]:
    """Docstrings of a dataclass's fields, inherited from its bases where it has none."""
    found: dict[str, str] = {}
    for part in reversed(kind.__mro__):
        if not dataclasses.is_dataclass(part):
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(part))).body[0]
        assert isinstance(body, ast.ClassDef)
        for field, text in pairwise(body.body):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
                found[field.target.id] = " ".join(str(ast.literal_eval(text.value)).split())
    return found


def _preset(algorithm: Any, arguments: list[str]) -> Any:
    """The settings of ``--preset``, if given."""
    if "--preset" not in arguments:
        return algorithm
    presets = getattr(algorithm, "presets", {})
    if not presets:
        raise OptionError("--preset", "be for an algorithm that has presets", algorithm.name)
    return dataclasses.replace(algorithm, **presets[_nearest("preset", taken(arguments, "--preset"), presets)])


def whole_number(flag: str, text: str) -> int:
    """An integer, written as 1000000, 1_000_000 or 1e6."""
    try:
        number = float(text.replace("_", "").replace(",", ""))
        if number != int(number):
            raise ValueError
    except (ValueError, OverflowError):
        raise OptionError(flag, "be a whole number", repr(text)) from None
    return int(number)


def _plain_numbers(arguments: list[str], settings: Any) -> list[str]:
    """Arguments with integers such as 1e6 written out, for integer settings."""
    known = {f.name: getattr(settings, f.name) for f in dataclasses.fields(settings)}
    whole = {f"--{name.replace('_', '-')}" for name, value in known.items() if type(value) is int}
    made = list(arguments)
    for place, flag in enumerate(made[:-1]):
        if flag in whole and any(letter in made[place + 1].lower() for letter in "e_."):
            made[place + 1] = str(whole_number(flag, made[place + 1]))
    return made


def _refuse_synonyms(arguments: list[str], known: Set[str]) -> None:
    """Refuse a flag that is another library's name for one of the known settings."""
    for argument in arguments:
        flag = argument.partition("=")[0]
        name = flag.removeprefix("--").replace("-", "_")
        meant = [f"--{each.replace('_', '-')}" for each in SYNONYMS.get(name, ()) if each in known]
        if flag.startswith("--") and name not in known and meant:
            raise OptionError("flag", "be one of this algorithm's", flag, f"Did you mean {' or '.join(meant)}?")


def _nearest(what: str, name: str, known: Mapping[str, Any]) -> str:
    if name in known:
        return name
    remedy = did_you_mean(name, known)
    raise OptionError(what, f"be one of {', '.join(known)}", repr(name), remedy)


def _option(text: str) -> tuple[str, Any]:
    """``N=5`` as a name and a value: a number, a boolean, or else text."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise OptionError("option", "be given as NAME=VALUE", repr(text))
    try:
        return name, tomllib.loads(f"value = {value}")["value"]
    except (ValueError, RecursionError):
        return name, value
