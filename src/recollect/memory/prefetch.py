"""Batches drawn ahead of their use."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, final

__all__ = ["Prefetch"]


@final
class Prefetch(Iterator[Any]):
    """An iterator over what ``draw`` returns, called by a background thread; use it in a ``with`` statement.

    What comes out was drawn up to ``ahead`` calls earlier: priorities and rows that came since are not in it.
    """

    def __init__(self, draw: Callable[[], Any], ahead: int) -> None:
        self._draw = draw
        self._ready: queue.Queue[tuple[Any, BaseException | None]] = queue.Queue(maxsize=ahead)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="recollect-prefetch", daemon=True)
        self._thread.start()

    def __next__(self) -> Any:
        if self._stop.is_set():
            raise StopIteration
        value, error = self._ready.get()
        if error is not None:
            self.close()
            raise error
        return value

    def __enter__(self) -> Prefetch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the thread and let go of what it drew."""
        self._stop.set()
        while self._thread.is_alive():
            try:
                self._ready.get(timeout=0.01)
            except queue.Empty:
                continue
        self._thread.join()

    def _work(self) -> None:
        while not self._stop.is_set():
            error: BaseException | None = None
            value: Any = None
            try:
                value = self._draw()
            except Exception as problem:
                error = problem
            self._ready.put((value, error))
            if error is not None:
                return
