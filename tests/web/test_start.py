"""Pages that are started from Python."""

import contextlib
import gc
import http.client
import json
import os
import socket
import threading
import time
import weakref
from pathlib import Path

import pytest
from asking import get
from made_runs import small_memory

import relive as rl
from refusals import refused
from relive.errors import OptionError
from relive.web.connections import MOST
from relive.web.start import Page
from waiting import PATIENCE, until


def test_a_memory_of_ones_own(tmp_path: Path) -> None:
    with rl.serve(small_memory(), name="loop") as page:
        assert json.loads(get(page, "/api/overview")[2]) == {"runs": [], "memories": ["loop"]}
        assert get(page, "/api/run?run=x")[0] in (200, 404)
    for options, about in (
        ({"port": -1}, "port"),
        ({"token": "short"}, "token"),
    ):
        with refused(OptionError, about):
            rl.serve(small_memory(1), **options)
    with refused(OptionError, "memory", got="list"):
        rl.serve([])  # type: ignore[arg-type]
    with Page(None, {}).start() as first, refused(OptionError, "host and port"):
        Page(None, {}, port=first.port)
    with refused(OptionError, "folder"):
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
            made.append(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE))
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


def test_idle_connections_do_not_take_all_descriptors(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A thousand connections without a token once took every descriptor of a training program."""
    monkeypatch.setattr("relive.web.connections._SECONDS", 1.0)
    memory = small_memory()
    with rl.serve(memory, name="loop") as page:
        made: list[socket.socket] = []
        for _ in range(300):
            with contextlib.suppress(OSError):
                made.append(socket.create_connection(("127.0.0.1", page.port), timeout=PATIENCE))
        until(lambda: open_sockets() - len(made) <= MOST + 20)
        memory.save(tmp_path / "saved")
        for connection in made:
            connection.close()
        assert get(page, "/api/overview")[0] == 200
    assert sum("refuses more" in record.message for record in caplog.records) <= 1


def open_sockets() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_request_that_does_not_arrive_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relive.web.connections._SECONDS", 0.2)
    with Page(None, {}).start() as page:
        for begun in (b"", b"GET / HTTP/1.1\r\nHost: ", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\nGET /"):
            with socket.create_connection(("127.0.0.1", page.port), timeout=PATIENCE) as connection:
                connection.sendall(begun)
                while connection.recv(4096):
                    pass
        assert get(page, "/events")[0] == 200  # a long answer is no late request


def test_no_more_streams_than_the_limit_in_a_burst() -> None:
    with Page(None, {}).start() as page:
        connections = [http.client.HTTPConnection("127.0.0.1", page.port, timeout=PATIENCE) for _ in range(60)]
        for connection in connections:
            connection.request("GET", "/events", headers={"Cookie": f"relive-{page.port}={page.token}"})
        codes = [connection.getresponse().status for connection in connections]
        assert (codes.count(200), codes.count(503)) == (32, 28)
        for connection in connections:
            connection.close()
        until(lambda: get(page, "/events")[0] == 200)
        assert get(page, "/events")[0] == 200


def test_closing_gives_the_memory_back_at_once() -> None:
    memory = small_memory()
    page = rl.serve(memory, name="loop")
    assert get(page, "/api/memory?memory=loop")[0] == 200  # draws are counted from now on
    page.close()
    assert memory.inspect.count_draws() is False
    gone = weakref.ref(memory)
    del memory
    gc.collect()
    assert gone() is None
