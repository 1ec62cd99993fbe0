"""Videos: every picture in order, captions below, and what is refused."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import relive as rl
from refusals import refused
from relive import envs
from relive.envs.video import captioned, save_video


def test_a_gif_holds_every_picture_and_lingers_on_the_last(tmp_path: Path) -> None:
    pictures = [np.full((10, 12, 3), shade, np.uint8) for shade in (0, 120, 250)]
    path = save_video(tmp_path / "new" / "film.gif", pictures, fps=20)
    with Image.open(path) as film:
        assert film.n_frames == 3
        lasts = []
        for index, picture in enumerate(pictures):
            film.seek(index)
            lasts.append(film.info["duration"])
            shown = np.asarray(film.convert("RGB")).astype(int)
            assert np.abs(shown - picture).max() <= 8  # a palette of 255 colours
    assert lasts == [50, 50, 1000]


def test_an_mp4_of_odd_sizes(tmp_path: Path) -> None:
    path = save_video(tmp_path / "film.mp4", [np.zeros((11, 13, 3), np.uint8)] * 5)
    assert path.read_bytes()[4:8] == b"ftyp"


def test_captions_stand_below_the_picture() -> None:
    picture = np.full((40, 300, 3), 7, np.uint8)
    one, other = (captioned(picture, text) for text in ("step 1", "step 2"))
    assert one.shape == other.shape
    assert one.shape[0] > 40
    assert one.shape[1:] == (300, 3)
    np.testing.assert_array_equal(one[:40], picture)
    assert (one[40:] != other[40:]).any()
    legend = captioned(picture, "step 1", [("red team", [(255, 0, 0)])])
    assert legend.shape[0] > one.shape[0]
    below = legend[one.shape[0] :].astype(int)
    assert (below[..., 0] - below[..., 1] > 200).any()


@pytest.mark.parametrize("ending", ["gif", "mp4"])
def test_films(tmp_path: Path, ending: str) -> None:
    env = envs.make("simple_tag")
    env.reset(seed=0)
    pictures = []
    for _ in range(6):
        env.step({"adversary/action": np.full((1, 3), 2), "agent/action": np.full((1, 1), 1)})
        pictures.append(env.render()[: -1 if ending == "mp4" else None])  # an odd height too
    path = save_video(tmp_path / "new" / f"film.{ending}", pictures, fps=5)
    assert path.stat().st_size > 1000
    if ending == "gif":
        with Image.open(path) as film:
            assert film.n_frames == 6  # type: ignore[attr-defined]
            assert film.info["duration"] == 200
            film.seek(5)
            shown = np.asarray(film.convert("RGB")).astype(int)
        assert np.abs(shown - pictures[5]).mean() < 3
    else:
        import imageio_ffmpeg

        command = [imageio_ffmpeg.get_ffmpeg_exe(), "-i", str(path), "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
        raw = subprocess.run(command, capture_output=True, check=True, stdin=subprocess.DEVNULL).stdout
        frames = np.frombuffer(raw, np.uint8).reshape(6, 360, 360, 3)
        assert np.abs(frames[3][:-1].astype(int) - pictures[3]).mean() < 6


def test_films_that_cannot_be(tmp_path: Path) -> None:
    picture = np.zeros((4, 4, 3), np.uint8)
    for name, pictures, fps, about in (
        ("a.avi", [picture], 5, "path"),
        ("a.gif", [], 5, "pictures"),
        ("a.gif", [picture], 0, "fps"),
        (
            "a.gif",
            [picture, picture[1:]],
            5,
            "pictures",
        ),
        ("a.gif", [picture * 1.0], 5, "pictures"),
    ):
        with refused(rl.errors.OptionError, about):
            save_video(tmp_path / name, pictures, fps=fps)
    assert not list(tmp_path.iterdir())
