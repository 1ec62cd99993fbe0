"""Environments by name."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

from relive.envs import particle
from relive.envs.battle import Battle
from relive.envs.bitflip import BitFlip
from relive.envs.checks import guarded
from relive.envs.interface import Env
from relive.envs.marines import Marines
from relive.envs.matrix import Climbing, Penalty
from relive.envs.options import positive
from relive.errors import OptionError
from relive.messages import did_you_mean

__all__ = ["Entry", "entries", "find", "full_name", "make", "make_drawable", "register", "registered"]

_GYMNASIUM = re.compile(r"[\w.-]+(/[\w.-]+)?-v\d+")
_MARINES = re.compile(r"marines_(\d+)v(\d+)|MarineMicro_MvsM_(\d+)")


@final
@dataclass(frozen=True, slots=True)
class Entry:
    """A registered environment.

    Args:
        line: A one-line summary.
        make: Makes it from ``num_envs`` and options; or a single Gymnasium or PettingZoo environment from options.
        options: Names of its options.
        single: Whether ``make`` returns a single environment.
    """

    name: str
    line: str
    make: Callable[..., Any]
    options: tuple[str, ...]
    single: bool = False


_ENTRIES: dict[str, Entry] = {}


def register(name: str, make: Callable[..., Any], line: str = "") -> None:
    """Register an environment, to be made by name.

    Args:
        make: Called with ``num_envs`` and the options as keywords. Without a parameter ``num_envs`` (a class of a
            Gymnasium environment or of a PettingZoo parallel environment), it is called once for each environment.
    """
    if not isinstance(name, str) or not name or ":" in name:
        raise OptionError("name", "be a word without a colon", repr(name))
    known = _ENTRIES.get(name)
    if known is not None and _source(known.make) != _source(make):
        raise OptionError("name", "not be taken", repr(name), "Choose another name.")
    parameters = inspect.signature(make).parameters.values()
    vectorised = any(p.name == "num_envs" or p.kind is p.VAR_KEYWORD for p in parameters)
    _ENTRIES[name] = Entry(name, line, make, _options(make), single=not vectorised)


def entries() -> tuple[Entry, ...]:
    """All registered environments, in the order of registration."""
    return tuple(_ENTRIES.values())


def registered(name: str) -> Entry | None:
    """The environment registered under exactly this name, if any."""
    return _ENTRIES.get(name)


def make(name: str, /, num_envs: int = 1, **options: Any) -> Env:
    """Vectorised environments by name.

    Besides the registered names: ``marines_5v6`` and any other sizes, ``MarineMicro_MvsM_4``; ``CartPole-v1`` (or
    ``gymnasium:CartPole-v1``) for Gymnasium's environments, ``lbforaging:Foraging-8x8-2p-2f-coop-v3`` and
    ``rware:rware-tiny-2ag-v2`` for these packages', ``pettingzoo:sisl/pursuit-v5`` for PettingZoo's,
    ``pettingzoo:mpe2.simple_spread_v3`` for a module with a ``parallel_env``, ``pymarl:package.module:Class`` for a
    class with PyMARL's interface.

    Args:
        options: The environment's options; ``pool=4`` runs environments with a prefix in that many processes.

    >>> make("simple_spread", num_envs=8, N=5).schema
    Schema(obs: float32[5, 30], action: uint8[5], reward: float32[5])
    """
    if not isinstance(name, str):
        raise OptionError("environment", "be a name", repr(name))
    kind, colon, rest = full_name(name).partition(":")
    if colon:
        return _adapted(kind, rest, num_envs, options)
    entry = find(name)
    for option in options:
        if entry.single and option == "pool":
            continue
        if option not in entry.options and entry.options != ("**",):
            remedy = did_you_mean(option, entry.options)
            raise OptionError(f"option of {name}", f"be one of {', '.join(entry.options)}", repr(option), remedy)
    if entry.single:
        return _singles(entry, num_envs, options)
    made: Env = entry.make(num_envs=num_envs, **options)
    return made


def make_drawable(name: str, /, **options: Any) -> Env:
    """One environment that can be rendered, if possible: Gymnasium's and PettingZoo's get ``render_mode``."""
    options.pop("pool", None)
    name = full_name(name)
    wants = name.startswith(("gymnasium:", "pettingzoo:")) or (":" not in name and "render_mode" in find(name).options)
    return make(name, **({"render_mode": "rgb_array"} | options if wants else options))


def find(name: str) -> Entry:
    """The entry of a name without a prefix."""
    if name in _ENTRIES:
        return _ENTRIES[name]
    match = _MARINES.fullmatch(name)
    if match is not None:
        allies, enemies, both = match.groups()
        return _marines(int(allies or both), int(enemies or both))
    import gymnasium

    known = [*_ENTRIES, "MarineMicro_MvsM_4", *gymnasium.registry]
    remedy = did_you_mean(name, known, "`relive envs` lists them.")
    raise OptionError("environment", "be a known environment", repr(name), remedy)


def full_name(name: str) -> str:
    """The name with the prefix ``gymnasium:`` if it has the form of a Gymnasium id."""
    return f"gymnasium:{name}" if name not in _ENTRIES and _GYMNASIUM.fullmatch(name) else name


def _source(make: Callable[..., Env]) -> tuple[Any, Any]:
    """What identifies a function across reloads of its module."""
    return getattr(make, "__module__", None), getattr(make, "__qualname__", make)


def _options(make: Callable[..., Env]) -> tuple[str, ...]:
    parameters = inspect.signature(make).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return ("**",)
    return tuple(parameter.name for parameter in parameters if parameter.name != "num_envs")


def _adapted(kind: str, rest: str, num_envs: int, options: dict[str, Any]) -> Env:
    from relive.envs import adapters

    positive("num_envs", num_envs)
    processes = options.pop("pool", None)
    if kind in ("lbforaging", "rware") and rest:  # packages that register their environments when they are imported
        kind, rest = "gymnasium", f"{kind}:{rest}"
    if kind not in ("gymnasium", "pettingzoo", "pymarl") or not rest:
        got = repr(f"{kind}:{rest}")
        raise OptionError("environment", "be gymnasium:, pettingzoo: or pymarl: and what there is to make", got)
    makers: list[Callable[[], adapters.SingleEnv]]
    if kind == "gymnasium":
        makers = [adapters.MakeGymnasium(rest, options)] * num_envs
    elif kind == "pettingzoo":
        makers = [adapters.MakePettingZoo(rest, options)] * num_envs
    else:
        makers = [adapters.MakePymarl(rest, options, index) for index in range(num_envs)]
    if processes is not None:
        return adapters.Pool(makers, processes=processes)
    return adapters.SyncEnvs([guarded(f"{kind}:{rest}", "making", make_one) for make_one in makers])


def _singles(entry: Entry, num_envs: int, options: dict[str, Any]) -> Env:
    from relive.envs import adapters

    positive("num_envs", num_envs)
    processes = options.pop("pool", None)
    makers = [adapters.MakeSingle(entry.name, entry.make, options)] * num_envs
    if processes is not None:
        return adapters.Pool(makers, processes=processes)
    return adapters.SyncEnvs([guarded(entry.name, "making", make_one) for make_one in makers])


def _particle(name: str) -> Callable[..., Env]:
    scenario = particle.SCENARIOS[name]
    own = [p for p in inspect.signature(particle.World).parameters.values() if p.name != "scenario"]
    outer = {parameter.name for parameter in own}

    def build(**options: Any) -> Env:
        inner = {key: value for key, value in options.items() if key not in outer}
        return particle.World(scenario(**inner), **{key: value for key, value in options.items() if key in outer})

    both = {p.name: p.replace(kind=p.KEYWORD_ONLY) for p in (*inspect.signature(scenario).parameters.values(), *own)}
    build.__signature__ = inspect.Signature(list(both.values()))  # type: ignore[attr-defined]
    return build


def _marines(allies: int, enemies: int) -> Entry:
    def build(num_envs: int = 1, **options: Any) -> Env:
        return Marines(allies, enemies, num_envs, **options)

    own = inspect.signature(Marines).parameters.values()
    build.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [p.replace(kind=p.KEYWORD_ONLY) for p in own if p.name not in ("allies", "enemies")]
    )
    line = f"{allies} marines, controlled by agents, against {enemies} scripted ones."
    return Entry(f"marines_{allies}v{enemies}", line, build, _options(build))


for _name, _scenario in particle.SCENARIOS.items():
    register(_name, _particle(_name), (inspect.getdoc(_scenario) or "").partition("\n")[0])
for _sizes in ((3, 3), (4, 4), (5, 5), (5, 6), (8, 8), (8, 9)):
    _ENTRIES[_marines(*_sizes).name] = _marines(*_sizes)
for _name, _make in {"battle": Battle, "climbing": Climbing, "penalty": Penalty, "bitflip": BitFlip}.items():
    register(_name, _make, (inspect.getdoc(_make) or "").partition("\n")[0])  # type: ignore[arg-type]
