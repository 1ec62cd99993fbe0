"""The style of plots holds inside its context, and nowhere else."""

from __future__ import annotations

import matplotlib as mpl

from relive.training.style import COLOURS, add_caption, format_steps, styled


def test_settings_are_given_back() -> None:
    before = dict(mpl.rcParams)
    with styled() as new_figure:
        figure = new_figure()
        axes = figure.subplots()
        lines = [axes.plot([0, 1], [0, number])[0] for number in range(3)]
        assert [line.get_color() for line in lines] == list(COLOURS[:3])
        assert not axes.spines["top"].get_visible()
    assert dict(mpl.rcParams) == before, "the backend too: plots in a notebook go on to be shown"
    assert len(set(COLOURS)) == len(COLOURS)


def test_steps_and_captions() -> None:
    with styled() as new_figure:
        figure = new_figure()
        axes = figure.subplots()
        format_steps(axes)
        assert axes.get_xlabel() == "environment steps"
        said = [axes.xaxis.get_major_formatter()(value) for value in (0, 1500, 2_000_000)]
        assert said == ["0", "1.5k", "2M"]
        add_caption(figure, "what it shows")
        assert figure.get_supxlabel() == "what it shows"
