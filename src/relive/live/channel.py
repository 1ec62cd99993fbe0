"""Requests to a process that uses a memory: JSON over a local socket.

A thread waits for requests and is idle until one comes. The socket is in a private folder; a small file in the run's
folder has its path.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import stat
import struct
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

from relive import run_files
from relive.errors import RunError
from relive.live.view import View

__all__ = ["Publisher", "ask", "published"]

_FILE = "live.json"
_PREFIX = "relive-live-"
_SIZE = struct.Struct("<I")
_MOST = 1 << 28  # bytes of an answer
_ASKED = 1 << 16  # bytes of a question


@final
class Publisher:
    """Answers requests about a view until it is closed.

    Args:
        folder: The run's folder, where the socket's path is written.
    """

    def __init__(self, folder: Path, view: View) -> None:
        self._view, self._file = view, run_files.path_inside(folder, _FILE)
        _sweep()
        self._room = Path(tempfile.mkdtemp(prefix=_PREFIX))  # for this user alone
        path = self._room / "socket"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(str(path))
        self._socket.listen(8)
        run_files.write(folder, _FILE, json.dumps({"socket": str(path), "pid": os.getpid()}).encode())
        self._pid = os.getpid()
        threading.Thread(target=self._serve, name="relive-live", daemon=True).start()

    def close(self) -> None:
        """Stop answering."""
        if self._pid != os.getpid():  # a child has a copy of everything but the thread
            return
        self._file.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        shutil.rmtree(self._room, ignore_errors=True)

    def _serve(self) -> None:
        while True:
            try:
                caller, _ = self._socket.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._talk, args=(caller,), name="relive-live", daemon=True).start()

    def _talk(self, caller: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError), caller:
            while (asked := _receive(caller, _ASKED)) is not None:
                question = json.loads(asked)
                answer = self._view.answer(question if isinstance(question, dict) else {})
                _send(caller, json.dumps(answer).encode())


def _sweep() -> None:
    """Remove the sockets of programs that were killed."""
    for room in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            found = room.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
                continue
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
                channel.settimeout(1.0)
                try:
                    channel.connect(str(room / "socket"))
                except ConnectionRefusedError:  # nobody listens any more
                    shutil.rmtree(room, ignore_errors=True)


def published(folder: Path) -> Path | None:
    """The socket of a folder's publisher, if it belongs to this user; None if there is none."""
    try:
        path = Path(json.loads(run_files.read(folder, _FILE, _ASKED))["socket"])
        found = path.parent.stat()
        mine = path.parent.name.startswith(_PREFIX) and path.parent.parent == Path(tempfile.gettempdir())
        if not mine or found.st_uid != os.getuid() or found.st_mode & 0o077 or path.parent.is_symlink():
            return None
        return path if stat.S_ISSOCK(path.stat().st_mode) else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError, RunError):
        return None


def ask(folder: Path, question: Mapping[str, Any], timeout: float = 10.0) -> dict[str, Any] | None:
    """The answer of a folder's publisher; None if there is none."""
    path = published(folder)
    if path is None:
        return None
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
            channel.settimeout(timeout)
            channel.connect(str(path))
            _send(channel, json.dumps(question).encode())
            answer = _receive(channel, _MOST)
        return None if answer is None else dict(json.loads(answer))
    except (OSError, ValueError):
        return None


def _send(to: socket.socket, data: bytes) -> None:
    to.sendall(_SIZE.pack(len(data)) + data)


def _receive(source: socket.socket, most: int) -> bytes | None:
    head = _exactly(source, _SIZE.size)
    if head is None:
        return None
    (size,) = _SIZE.unpack(head)
    if size > most:
        raise ValueError(f"{size} bytes")
    return _exactly(source, size)


def _exactly(source: socket.socket, size: int) -> bytes | None:
    parts, left = [], size
    while left:
        part = source.recv(min(left, 1 << 20))
        if not part:
            return None
        parts.append(part)
        left -= len(part)
    return b"".join(parts)
