"""Files inside a run's folder: what is refused."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from relive import run_files
from relive.errors import RunError


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "run" / "history").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_bytes(b"precious")
    return tmp_path / "run"


def test_files_are_written_added_to_and_read(run: Path) -> None:
    run_files.write(run, "history/a", b"one\n")
    run_files.append(run, "history/a", "two\n")
    run_files.append(run, "b", "three")
    assert run_files.read(run, "history/a", 8) == b"one\ntwo\n"
    assert run_files.has_file(run, "b")
    assert not run_files.has_file(run, "history")
    assert run_files.make_folder(run, "history") == run / "history"
    assert run_files.make_folder(run, "x/y").is_dir()
    with pytest.raises(FileNotFoundError):
        run_files.read(run, "c", 8)


def test_longer_files_than_expected_are_not_read(run: Path) -> None:
    with open(run / "long", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(RunError) as caught:
        run_files.read(run, "long", 1 << 20)
    assert caught.value.problem.got == str(1 << 40)


@pytest.mark.parametrize("kind", ["link to a file", "link to nothing", "link to a folder", "pipe", "socket", "device"])
def test_what_is_no_file_is_refused(run: Path, kind: str) -> None:
    path = run / "history" / "x"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(os.path.relpath(path))
    elif kind == "device":
        path = Path("/dev/zero")
        with pytest.raises(RunError):
            run_files.open_file(path.parent, path.name)
        return
    else:
        path.symlink_to(
            {"file": run.parent / "outside" / "file", "folder": run.parent / "outside"}.get(kind[10:], "no")
        )
    for call in (
        lambda: run_files.open_file(run, "history/x"),
        lambda: run_files.read(run, "history/x", 100),
        lambda: run_files.write(run, "history/x", b"new"),
        lambda: run_files.append(run, "history/x", "new"),
        lambda: run_files.make_folder(run, "history/x"),
        lambda: run_files.write(run, "history/x/file", b"new"),
    ):
        with pytest.raises(RunError):
            call()
    assert not run_files.has_file(run, "history/x")
    assert (run.parent / "outside" / "file").read_bytes() == b"precious"
    assert len(list((run.parent / "outside").iterdir())) == 1


def test_a_file_is_no_folder_and_a_folder_no_file(run: Path) -> None:
    run_files.write(run, "a", b"")
    with pytest.raises(RunError):
        run_files.make_folder(run, "a")
    for mode in ("rb", "a"):
        with pytest.raises(RunError):
            run_files.open_file(run, "history", mode)
