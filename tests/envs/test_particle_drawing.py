"""Pictures of particle worlds."""

from __future__ import annotations

from relive import envs


def test_agents_can_be_told_apart() -> None:
    """Two of a kind that change places make another picture."""
    env = envs.make("simple_spread")
    env.reset(seed=0)
    env.pos[:] = 0  # type: ignore[attr-defined]
    env.vel[:] = 0  # type: ignore[attr-defined]
    env.pos[0, 0], env.pos[1, 0], env.pos[2, 1] = 0.5, -0.5, 0.8  # type: ignore[attr-defined]
    one = env.render(0)
    env.pos[0, 0], env.pos[1, 0] = -0.5, 0.5  # type: ignore[attr-defined]
    assert (env.render(0) != one).any()


def test_whoever_runs_off_stays_in_the_picture() -> None:
    env = envs.make("simple_tag")
    env.reset(seed=0)
    env.pos[0] = 5.0  # type: ignore[attr-defined]
    picture = env.render(0).astype(int)
    red = (picture[..., 0] - picture[..., 1] > 80).sum()
    assert red > 20
