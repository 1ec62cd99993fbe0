"""Ray: whether it is there, and a cluster of this machine alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from relive.errors import MissingExtra, OptionError, StorageError
from relive.memory.storage import watch_files

__all__ = ["connect", "import_ray"]

_LOOPBACK = "127.0.0.1"


def import_ray() -> Any:
    """The package ray.

    Raises:
        MissingExtra: If it is not installed.
    """
    try:
        import ray
    except ModuleNotFoundError:
        raise MissingExtra("ray", "ray") from None
    return ray


def connect(address: str = "auto", **options: Any) -> bool:
    """Make sure that this process is part of a Ray cluster; true if one was started for it.

    A cluster that is started here listens on loopback only, and asks for Ray's token (``~/.ray/auth_token``) unless
    ``RAY_AUTH_MODE`` says otherwise.

    Args:
        address: ``"local"`` starts one; ``"auto"`` joins the one of this machine, or starts one; anything else is the
            address of one to join, as ``host:port``.
        options: Of ``ray.init``, for one that is started.

    >>> import relive as rl
    >>> rl.distributed.connect("local")  # doctest: +SKIP
    True
    """
    started = _connect(address, options)
    watch_files()  # Ray takes over the signal by which a mapped file that is cut short is noticed
    return started


def _connect(address: str, options: dict[str, Any]) -> bool:
    ray = import_ray()
    if ray.is_initialized():
        return False
    if not isinstance(address, str) or not address:
        raise OptionError("address", "be 'auto', 'local' or host:port", repr(address))
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR", "configure_logging": False}
    if address != "local":
        try:
            with _on_loopback() if address.startswith(_LOOPBACK) else nullcontext():
                ray.init(address=address, **quiet)
            return False
        except ConnectionError:
            if address != "auto":
                raise
    with _on_loopback():
        ray.init(address="local", **{"include_dashboard": False, **quiet, **options})
    found = ray.util.get_node_ip_address()
    if found != _LOOPBACK:
        ray.shutdown()
        remedy = "Start Ray yourself (ray start --head) and give its address."
        raise StorageError("Ray", f"listen on {_LOOPBACK} alone", found, remedy)
    return True


@contextmanager
def _on_loopback() -> Iterator[None]:
    """Has Ray listen on loopback, as it does on macOS and Windows; elsewhere it listens on all addresses, whichever is
    asked for.
    """
    from ray._private import ray_constants

    before = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before
