"""Prefetching: batches drawn by a background thread."""

from __future__ import annotations

import atexit
import os
import queue
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Generic, TypeAlias, TypeVar, cast, final

from relive.errors import OptionError, StorageError
from relive.memory.checks import whole

__all__ = ["Prefetch"]

_T = TypeVar("_T")
_Item: TypeAlias = tuple[_T | None, BaseException | None]

_POLL = 0.05


@final
class Prefetch(Iterator[_T], Generic[_T]):
    """An iterator over what ``draw`` returns, called by a background thread; use it in a ``with`` statement.

    A batch was drawn up to ``ahead`` calls earlier, without the priorities and rows that came since. An error of
    ``draw`` is raised in place of its batch, and ends the iteration.
    """

    def __init__(self, draw: Callable[[], _T], ahead: int) -> None:
        if not callable(draw):
            raise OptionError("draw", "be a function", type(draw).__name__)
        self._ready: queue.Queue[_Item[_T]] = queue.Queue(maxsize=whole("ahead", ahead, 1, 1024))
        self._stop = threading.Event()
        # The thread holds no reference to this object, so a finalizer and an exit handler stop it.
        thread = threading.Thread(
            target=_work, args=(draw, self._ready, self._stop), name="relive-prefetch", daemon=True
        )
        self._process = os.getpid()
        self._finish = weakref.finalize(self, _finish, thread, self._stop)
        self._finish.atexit = False
        _running[thread] = self._stop
        thread.start()

    def __next__(self) -> _T:
        if os.getpid() != self._process:  # the thread is the parent's, and so may be the queue's lock
            raise StorageError(
                "prefetch", "be used in the process that made it", "one from before a fork", "Make another."
            )
        while not self._stop.is_set():
            try:
                value, error = self._ready.get(timeout=_POLL)
            except queue.Empty:
                continue
            if error is not None:
                self.close()
                raise error
            return cast(_T, value)
        raise StopIteration

    def __enter__(self) -> Prefetch[_T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the thread and drop its batches."""
        self._finish()


# Threads still drawing. At exit they are stopped before the interpreter takes itself apart: a thread that comes back
# from native code after that would end the process.
_running: weakref.WeakKeyDictionary[threading.Thread, threading.Event] = weakref.WeakKeyDictionary()


def _finish(thread: threading.Thread, stop: threading.Event) -> None:
    stop.set()
    if thread is not threading.current_thread():
        thread.join()


@atexit.register
def _finish_all() -> None:
    for thread, stop in list(_running.items()):
        _finish(thread, stop)


def _work(draw: Callable[[], _T], ready: queue.Queue[_Item[_T]], stop: threading.Event) -> None:
    while not stop.is_set():
        item: _Item[_T]
        try:
            item = (draw(), None)
        except Exception as problem:
            item = (None, problem)
        while not stop.is_set():
            try:
                ready.put(item, timeout=_POLL)
                break
            except queue.Full:
                continue
        if item[1] is not None:
            return
