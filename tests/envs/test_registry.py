"""Environments by name, films of them, and the command that lists them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import recollect as rc
from recollect import envs
from recollect.envs import particle, registry
from recollect.envs.video import save_video


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "simple_spraed",
            {},
            "environment must be a known environment, got 'simple_spraed'. Did you mean 'simple_spread'?",
        ),
        ("marines", {}, "environment must be a known environment, got 'marines'. Did you mean 'marines_8v9'?"),
        ("zzz", {}, "environment must be a known environment, got 'zzz'. `recollect envs` lists them."),
        (
            "simple",
            {"max_cycle": 3},
            "option of simple must be one of max_cycles, continuous_actions, state, velocity_first, raw_actions, "
            "got 'max_cycle'. Did you mean 'max_cycles'?",
        ),
        (7, {}, "environment must be a name, got 7"),
        ("gymnasium:CartPole-v1", {"num_envs": 1.5}, "num_envs must be a whole number of at least 1, got 1.5"),
        ("marines_4v4", {"N": 3}, "option of marines_4v4 must be one of max_episode_steps, reward, state, got 'N'"),
    ],
)
def test_wrong_names(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(rc.errors.OptionError) as caught:
        envs.make(name, **options)
    assert str(caught.value) == message


def test_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_ENTRIES", dict(registry._ENTRIES))

    def build(num_envs: int = 1, size: int = 2) -> envs.Env:
        return particle.World(particle.simple_spread(size), num_envs)

    envs.register("mine", build, "Mine.")
    assert envs.make("mine", num_envs=3, size=4).groups[0].agents[-1] == "agent_3"
    assert [entry.name for entry in envs.entries()][-1] == "mine"
    with pytest.raises(rc.errors.OptionError, match=r"^option of mine must be one of size, got 'sizes'\. Did you mean"):
        envs.make("mine", sizes=3)
    with pytest.raises(rc.errors.OptionError, match=r"^name must not be taken, got 'mine'\. Choose another name\.$"):
        envs.register("mine", particle.World)
    with pytest.raises(rc.errors.OptionError, match=r"^name must be a word without a colon, got 'a:b'$"):
        envs.register("a:b", build)


@pytest.mark.parametrize("entry", envs.entries(), ids=lambda entry: entry.name)
def test_every_one_is_drawn(entry: envs.Entry) -> None:
    env = entry.make(num_envs=2)
    obs = env.reset(seed=1)
    random, action = np.random.default_rng(0), {}
    for group in env.groups:  # from here on the two differ, wherever they began alike
        allowed = obs.get(group.key("avail_actions"), np.ones((2, len(group), group.action_space.n), bool))
        chance = random.random(allowed.shape) * allowed
        action[group.key("action")] = chance.argmax(axis=2)
    env.step(action)
    picture = env.render(1)
    assert picture.dtype == np.uint8
    assert picture.ndim == 3
    assert picture.shape[2] == 3
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 20
    assert (picture != env.render(0)).any()


def test_bodies_far_outside_are_in_the_picture() -> None:
    env: Any = envs.make("simple")
    env.reset(seed=0)
    env.pos[0, :, 0] = (30.0, -20.0)
    env.look()
    assert env.render().shape == (360, 360, 3)


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
    for name, pictures, fps, message in (
        ("a.avi", [picture], 5, "path must end in .gif or .mp4, got"),
        ("a.gif", [], 5, "pictures must be at least one, got none"),
        ("a.gif", [picture], 0, "fps must be from 0.1 to 1000, got 0"),
        (
            "a.gif",
            [picture, picture[1:]],
            5,
            "pictures must be bytes of one shape [height, width, 3], got uint8[3, 4, 3]",
        ),
        ("a.gif", [picture * 1.0], 5, "pictures must be bytes of one shape [height, width, 3], got float64[4, 4, 3]"),
    ):
        with pytest.raises(rc.errors.OptionError) as caught:
            save_video(tmp_path / name, pictures, fps=fps)
        assert str(caught.value).startswith(message)
    assert not list(tmp_path.iterdir())


def test_as_a_program() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "recollect", "envs", "simple"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    assert done.stdout.startswith("simple  One agent goes to one landmark")
    assert done.stderr == ""
