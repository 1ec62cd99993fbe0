"""Ray: whether it is there, and a cluster of this machine alone."""

from __future__ import annotations

from typing import Any

from recollect.errors import MissingExtra, OptionError

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

    >>> import recollect as rc
    >>> rc.distributed.connect("local")  # doctest: +SKIP
    True
    """
    ray = import_ray()
    if ray.is_initialized():
        return False
    if not isinstance(address, str) or not address:
        raise OptionError("address", "be 'auto', 'local' or host:port", repr(address))
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR", "configure_logging": False}
    if address != "local":
        try:
            ray.init(address=address, **quiet)
            return False
        except ConnectionError:
            if address != "auto":
                raise
    chosen = {"include_dashboard": False, "_node_ip_address": _LOOPBACK, **quiet, **options}
    ray.init(address="local", **chosen)
    return True
