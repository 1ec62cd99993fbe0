"""Shapes in world units land on the pixels where they belong, north up."""

from __future__ import annotations

import numpy as np

from relive.envs.canvas import Canvas

WHITE, RED, BLUE = (255, 255, 255), (255, 0, 0), (0, 0, 255)


def test_sizes_follow_the_world() -> None:
    assert Canvas((0, 0), (4, 2), 80).pixels().shape == (40, 80, 3)
    assert Canvas((-1, -1), (1, 3), 50).pixels().shape == (100, 50, 3)


def test_north_is_up_and_east_is_right() -> None:
    canvas = Canvas((0, 0), (10, 10), 100, WHITE)
    canvas.box(0, 0, 3, 2, RED)  # west and south
    canvas.disc(8, 8, 1, BLUE)  # east and north
    pixels = canvas.pixels()
    assert pixels.dtype == np.uint8
    assert tuple(pixels[90, 15]) == RED
    assert tuple(pixels[20, 80]) == BLUE
    assert tuple(pixels[50, 50]) == WHITE
    red = (pixels == RED).all(axis=2)
    assert 28 * 18 < red.sum() <= 31 * 21  # but for its edges
    blue = (pixels == BLUE).all(axis=2)
    assert np.pi * 8**2 < blue.sum() < np.pi * 11**2


def test_a_ring_is_hollow_and_a_line_goes_through_its_points() -> None:
    canvas = Canvas((0, 0), (10, 10), 100, WHITE)
    canvas.disc(5, 5, 4, None, edge=RED, edge_width=4)
    canvas.line([(0, 1), (10, 1)], BLUE, width=3)
    pixels = canvas.pixels()
    assert tuple(pixels[50, 50]) == WHITE
    assert pixels[50, 11:14, 0].min() == 255
    assert pixels[50, 11:14, 1].max() < 100
    assert (pixels[89:91, 5:95, 2] > 250).all()
    assert (pixels[89:91, 5:95, 0].min(axis=0) < 60).all()


def test_words_leave_marks() -> None:
    canvas = Canvas((0, 0), (10, 10), 100, WHITE)
    canvas.text(5, 5, "on", paint=RED, size=20, anchor="mm")
    marked = np.argwhere((canvas.pixels() != WHITE).any(axis=2))
    assert len(marked) > 50
    assert (np.abs(marked.mean(axis=0) - 50) < 8).all()
