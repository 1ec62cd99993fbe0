"""A canvas for rendering environments: shapes in world units, antialiased."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, final

import numpy as np

from relive.errors import MissingExtra
from relive.types import Array

try:
    from PIL import Image, ImageDraw, ImageFont
except ImportError:
    raise MissingExtra("pillow", "envs") from None

__all__ = ["Canvas", "Paint"]

Paint: TypeAlias = tuple[int, int, int] | tuple[int, int, int, int]

_FINE = 3  # drawn this much larger, then scaled down


@final
class Canvas:
    """An image of a rectangle of the world, north up.

    Args:
        low: West and south edge.
        high: East and north edge.
        width: Of the picture, in pixels; the height follows.
    """

    def __init__(
        self, low: tuple[float, float], high: tuple[float, float], width: int, paint: Paint = (250, 250, 247)
    ) -> None:
        self._low, self._high = low, high
        self._scale = width * _FINE / (high[0] - low[0])
        self._size = (width, max(1, round(width * (high[1] - low[1]) / (high[0] - low[0]))))
        self._image = Image.new("RGB", (self._size[0] * _FINE, self._size[1] * _FINE), paint)
        self._draw = ImageDraw.Draw(self._image, "RGBA")

    def _at(self, x: float, y: float) -> tuple[float, float]:
        return (x - self._low[0]) * self._scale, (self._high[1] - y) * self._scale

    def disc(
        self, x: float, y: float, radius: float, paint: Paint | None, edge: Paint | None = None, edge_width: float = 1.5
    ) -> None:
        """A filled circle, or a ring."""
        (cx, cy), r = self._at(x, y), radius * self._scale
        box = (cx - r, cy - r, cx + r, cy + r)
        self._draw.ellipse(box, fill=paint, outline=edge, width=round(edge_width * _FINE) if edge else 0)

    def box(self, x: float, y: float, width: float, height: float, paint: Paint) -> None:
        """A filled rectangle from its west and south edge."""
        left, bottom = self._at(x, y)
        right, top = self._at(x + width, y + height)
        self._draw.rectangle((left, top, right, bottom), fill=paint)

    def line(self, points: Sequence[tuple[float, float]], paint: Paint, width: float = 1.0) -> None:
        """A line through points."""
        self._draw.line([self._at(*point) for point in points], fill=paint, width=max(1, round(width * _FINE)))

    def text(
        self, x: float, y: float, words: str, paint: Paint = (60, 64, 70), size: float = 12, anchor: str = "lm"
    ) -> None:
        """Text, placed by Pillow's anchor."""
        font = ImageFont.load_default(size * _FINE)
        self._draw.text(self._at(x, y), words, fill=paint, font=font, anchor=anchor)

    def pixels(self) -> Array:
        """The image, ``[height, width, 3]`` bytes."""
        small: Any = self._image.resize(self._size, Image.Resampling.LANCZOS)
        return np.asarray(small).copy()
