"""Questions and answers from one process to another: many at once, nobody there, and files of strangers."""

import contextlib
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from relive.live import Publisher, ask, published


class Echo:
    def answer(self, asked) -> dict:
        return {"said": asked}


@pytest.fixture
def folder(tmp_path: Path):
    publisher = Publisher(tmp_path, Echo())
    yield tmp_path
    publisher.close()


def test_answers_come_back_to_whoever_asked(folder: Path) -> None:
    wrong = []

    def work(number: int) -> None:
        for turn in range(50):
            question = {"number": number, "turn": turn, "much": "x" * 1000}
            if ask(folder, question) != {"said": question}:
                wrong.append((number, turn))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_nobody_answers_after_the_end(tmp_path: Path) -> None:
    publisher = Publisher(tmp_path, Echo())
    room = published(tmp_path).parent
    assert room.stat().st_mode & 0o077 == 0
    publisher.close()
    assert ask(tmp_path, {}) is None
    assert not room.exists()
    assert not (tmp_path / "live.json").exists()


def test_a_process_that_was_killed_answers_nothing(tmp_path: Path) -> None:
    code = "import sys,time; from pathlib import Path; from relive.live import Publisher\n"
    code += "class E:\n def answer(self, asked): return {}\n"
    code += "Publisher(Path(sys.argv[1]), E()); print('there', flush=True); time.sleep(600)"
    child = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"there\n"
    assert ask(tmp_path, {}) == {}
    child.kill()
    child.wait()
    child.stdout.close()
    assert ask(tmp_path, {}) is None


def test_a_child_process_leaves_it_alone(folder: Path) -> None:
    """A fork has everything but the thread; what it closes is not its own."""
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    assert ask(folder, {"a": 1}) == {"said": {"a": 1}}


def test_garbage_is_answered_by_silence(folder: Path) -> None:
    path = published(folder)
    for data in (b"\xff\xff\xff\xff", struct.pack("<I", 4) + b"{no}", struct.pack("<I", 100) + b"short", b""):
        with socket.socket(socket.AF_UNIX) as channel:
            channel.settimeout(5)
            channel.connect(str(path))
            channel.sendall(data)
            channel.shutdown(socket.SHUT_WR)
            assert channel.recv(10) == b""
    with socket.socket(socket.AF_UNIX) as channel:  # no table: an empty question
        channel.connect(str(path))
        channel.sendall(struct.pack("<I", 2) + b"[]")
        assert b"said" in channel.recv(100)
    assert ask(folder, {"still": "here"}) == {"said": {"still": "here"}}


def test_sockets_of_strangers_are_not_asked(tmp_path: Path) -> None:
    room = Path(tempfile.mkdtemp(prefix="other-"))
    path = room / "socket"
    heard = []
    with socket.socket(socket.AF_UNIX) as channel:
        channel.bind(str(path))
        channel.listen(1)
        channel.settimeout(0.5)
        for where in (path, "/run/docker.sock", "/nowhere/relive-live-x/socket", 3, None):
            (tmp_path / "live.json").write_text(json.dumps({"socket": where if isinstance(where, int) else str(where)}))
            assert published(tmp_path) is None
            assert ask(tmp_path, {"secret": 1}) is None
        (tmp_path / "live.json").write_text("{")
        assert ask(tmp_path, {}) is None
        with contextlib.suppress(TimeoutError):
            heard.append(channel.accept())
    assert not heard
    path.unlink()
    room.rmdir()


def test_sockets_of_killed_programs_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    code = (
        "import os, signal, sys; from pathlib import Path; from relive.live import Publisher\n"
        "Publisher(Path(sys.argv[1]), None); os.kill(os.getpid(), signal.SIGKILL)"
    )
    (tmp_path / "run").mkdir()
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "run")], check=False)
    (left,) = tmp_path.glob("relive-live-*")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "relive-live-link").symlink_to(tmp_path / "elsewhere")
    one = Publisher(tmp_path / "run", Echo())
    two = Publisher(tmp_path / "run", Echo())  # that of a living program stays
    assert ask(tmp_path / "run", {"x": 1}) == {"said": {"x": 1}}
    assert not left.exists()
    assert len(list(tmp_path.glob("relive-live-*"))) == 3
    assert (tmp_path / "elsewhere").exists()
    one.close()
    two.close()
