"""Pages that are started from Python."""

import json
import socket
import threading
import time
from pathlib import Path

import pytest
from asking import get
from made_runs import small_memory

import relive as rl
from relive.errors import OptionError
from relive.web.start import Page


def test_a_memory_of_ones_own(tmp_path: Path) -> None:
    with rl.serve(small_memory(), name="loop") as page:
        assert json.loads(get(page, "/api/overview")[2]) == {"runs": [], "memories": ["loop"]}
        assert get(page, "/api/run?run=x")[0] in (200, 404)
    for options, message in (
        ({"port": -1}, "port must be from 0 to 65535, got -1"),
        ({"token": "short"}, "token must have at least 16 letters, got 5"),
    ):
        with pytest.raises(OptionError) as caught:
            rl.serve(small_memory(1), **options)
        assert str(caught.value) == message
    with pytest.raises(OptionError, match="memory must be a Memory, a Rollout or Shards, got list"):
        rl.serve([])  # type: ignore[arg-type]
    with Page(None, {}).start() as first, pytest.raises(OptionError, match="host and port must be free to listen on"):
        Page(None, {}, port=first.port)
    with pytest.raises(OptionError, match="folder must be a folder of runs"):
        Page(tmp_path / "none", {})


def test_no_connection_outlives_the_server() -> None:
    """Those that are made while it closes end too; a browser would wait on them for ever."""
    for _ in range(4):
        page = Page(None, {}).start()
        made: list[socket.socket] = []
        knocking = [threading.Thread(target=_knock, args=(page.port, made)) for _ in range(4)]
        for thread in knocking:
            thread.start()
        time.sleep(0.05)
        page.close()
        for thread in knocking:
            thread.join()
        assert made
        assert all(_ended(each) for each in made)


def _knock(port: int, made: list[socket.socket]) -> None:
    """Make connections until nobody takes them."""
    while True:
        try:
            made.append(socket.create_connection(("127.0.0.1", port), timeout=2))
        except OSError:
            return
        time.sleep(0.001)


def _ended(connection: socket.socket) -> bool:
    with connection:
        try:
            return connection.recv(1) == b""
        except TimeoutError:
            return False
        except OSError:  # reset
            return True
