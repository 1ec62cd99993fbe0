"""Files that are replaced whole, and links that are not followed."""

from __future__ import annotations

from pathlib import Path

import pytest

from relive import atomic_files


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    atomic_files.atomic_write(path, b"old")
    atomic_files.atomic_write(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    atomic_files.atomic_write(path, b"old")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    for call in ("fsync", "replace"):
        with monkeypatch.context() as patched:
            patched.setattr(atomic_files.os, call, fail)
            with pytest.raises(OSError, match="No space left"):
                atomic_files.atomic_write(path, b"new")
        assert path.read_bytes() == b"old"
        assert list(tmp_path.iterdir()) == [path]


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    precious, link = tmp_path / "precious", tmp_path / "link"
    precious.write_text("precious")
    link.symlink_to(precious)
    atomic_files.atomic_write(link, b"new")
    assert (link.read_bytes(), link.is_symlink()) == (b"new", False)
    link.unlink()
    link.symlink_to(precious)
    assert atomic_files.remove_symlink(link) == link
    assert not link.is_symlink()
    assert not link.exists()
    assert atomic_files.remove_symlink(precious).read_text() == "precious"
