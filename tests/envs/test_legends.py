"""Who is who below the frames of films."""

from __future__ import annotations

import numpy as np

from relive import envs
from relive.envs.interface import HasLegend
from relive.envs.one_agent import OneAgent
from relive.envs.video import captioned


def _labels(name: str) -> list[str]:
    env = envs.make(name)
    assert isinstance(env, HasLegend)
    env.reset(seed=0)
    return [label for label, _ in env.legend()]


def test_worlds_name_their_groups() -> None:
    assert _labels("simple_tag") == ["adversary 0-2", "agent 0", "landmark"]
    assert _labels("simple_adversary") == ["adversary 0", "agent 0-1", "landmark", "goal"]
    assert _labels("simple_reference") == ["agent 0-1 (colour of its goal)", "landmark"]
    assert _labels("marines_4v4") == ["allies (agents)", "enemies (scripted)"]
    assert _labels("battle")[0] == "red team"


def test_one_agent_keeps_the_legend() -> None:
    assert isinstance(OneAgent(envs.make("simple")), HasLegend)
    assert not isinstance(OneAgent(envs.make("bitflip")), HasLegend)


def test_colours_are_those_of_the_frame() -> None:
    env = envs.make("marines_4v4")
    env.reset(seed=0)
    frame = env.render(0).astype(int)
    assert isinstance(env, HasLegend)
    for _, colours in env.legend():
        assert all((np.abs(frame - colour) < 12).all(axis=2).any() for colour in colours)


def test_legends_wrap() -> None:
    frame = np.zeros((20, 300, 3), np.uint8)
    plain = captioned(frame, "step 1")
    assert captioned(frame, "step 1", [("agents", ((255, 0, 0),))]).shape == (plain.shape[0] + 20, 300, 3)
    many = captioned(frame, "step 1", [("a long name of a group", ((255, 0, 0),))] * 3)
    assert many.shape == (plain.shape[0] + 60, 300, 3)
    assert (many[plain.shape[0] :] == (255, 0, 0)).all(axis=2).any()
    assert captioned(frame, "return " * 40).shape == plain.shape, "long captions get smaller letters"
