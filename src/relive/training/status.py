"""The status of a run: going, done, stopped, failed, or killed, which is inferred."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from relive import run_files
from relive.errors import RunError

__all__ = ["Status", "read_status", "recorded"]

_FILE = "status.json"
_MOST = 1 << 20  # bytes of it


@final
@dataclass
class Status:
    """A run's status; ``state`` is ``going``, ``done``, ``stopped``, ``failed`` or ``killed``."""

    state: str = "going"
    error: str = ""
    began: float = 0.0
    ended: float = 0.0


@contextmanager
def recorded(folder: Path) -> Iterator[Status]:
    """A context that writes the run's status to its folder; an exception is a failure."""
    status = Status(began=time.time())
    _write(folder, status)
    try:
        yield status
    except BaseException as error:
        status.state, status.error = "failed", f"{type(error).__name__}: {error}"
        raise
    finally:
        status.ended = time.time()
        _write(folder, status)


def read_status(folder: Path) -> Status:
    """The status of the run in a folder; inferred from its files if it has none."""
    try:
        found: dict[str, Any] = json.loads(run_files.read(folder, _FILE, _MOST))
        state, error = str(found["state"]), str(found["error"])
        status = Status(state, error, float(found["began"]), float(found["ended"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError, OverflowError, RunError):
        return Status("done" if run_files.has_file(folder, "checkpoint.json") else "stopped")
    if status.state == "going" and found.get("host") == socket.gethostname():
        pid, born = found.get("pid"), found.get("born")
        if not isinstance(pid, int) or not 0 < pid < 2**31 or not _alive(pid) or _born(pid) != born:
            status.state = "killed"
    return status


def _write(folder: Path, status: Status) -> None:
    about = {"pid": os.getpid(), "born": _born(os.getpid()), "host": socket.gethostname()}
    run_files.write(folder, _FILE, json.dumps({**vars(status), **about}).encode())


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return True


def _born(pid: int) -> str:
    """A process's start time, if known, which distinguishes processes that reuse a pid."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""
