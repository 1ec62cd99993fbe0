"""Videos as GIF or MP4 files, and the captions of their frames."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from relive.envs.interface import LegendEntry
from relive.errors import MissingExtra, OptionError
from relive.types import Array

__all__ = ["captioned", "save_video"]

_PAPER, _INK, _MARGIN = (250, 250, 247), (60, 64, 70), 6
_LINGER = 1000  # milliseconds that a GIF holds its last frame before it loops


def save_video(path: str | Path, pictures: Sequence[Array], *, fps: float = 10) -> Path:
    """Write frames ``[height, width, 3]`` as an animated GIF or an MP4, by the file extension.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_video(f"{folder}/dark.gif", [np.zeros((8, 8, 3), np.uint8)] * 2).name
    'dark.gif'
    """
    path = Path(path)
    if path.suffix.lower() not in (".gif", ".mp4"):
        raise OptionError("path", "end in .gif or .mp4", repr(str(path)))
    if not len(pictures):
        raise OptionError("pictures", "be at least one", "none")
    if not 0.1 <= fps <= 1000:
        raise OptionError("fps", "be from 0.1 to 1000", repr(fps))
    frames = [np.asarray(picture) for picture in pictures]
    for frame in frames:
        if frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] != 3 or frame.shape != frames[0].shape:
            raise OptionError(
                "pictures", "be bytes of one shape [height, width, 3]", f"{frame.dtype}{list(frame.shape)}"
            )
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix.lower() == ".gif":
        _save_gif(path, frames, fps)
    else:
        _save_mp4(path, frames, fps)
    return path


def _save_gif(path: Path, frames: list[Array], fps: float) -> None:
    try:
        from PIL import Image
    except ImportError:
        raise MissingExtra("pillow", "envs") from None
    # One palette for all, from frames spread over the video, so that nothing flickers.
    sample = np.concatenate(frames[:: max(1, len(frames) // 8)])
    palette = Image.fromarray(sample).quantize(colors=255, dither=Image.Dither.NONE)
    first, *rest = (Image.fromarray(frame).quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames)
    each = max(20, round(1000 / fps))
    lasts = [each] * len(rest) + [max(each, _LINGER)]
    first.save(path, save_all=True, append_images=rest, duration=lasts, loop=0)


def _save_mp4(path: Path, frames: list[Array], fps: float) -> None:
    try:
        import imageio_ffmpeg
    except ImportError:
        raise MissingExtra("imageio-ffmpeg", "envs") from None
    height, width = frames[0].shape[:2]
    even = [np.ascontiguousarray(np.pad(frame, ((0, height % 2), (0, width % 2), (0, 0)), "edge")) for frame in frames]
    size = (width + width % 2, height + height % 2)
    writer = imageio_ffmpeg.write_frames(str(path), size, fps=fps, macro_block_size=2, quality=8)
    writer.send(None)
    for frame in even:
        writer.send(frame)
    writer.close()


def captioned(picture: Array, text: str, legend: Sequence[LegendEntry] = ()) -> Array:
    """A frame with a caption below it, and below that a legend that wraps."""
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ImportError:
        raise MissingExtra("pillow", "envs") from None
    width = picture.shape[1]
    size = max(8, min(14, width // 24))
    font, line, radius = ImageFont.load_default(size), size + 8, size * 0.35
    spots: list[tuple[float, int, LegendEntry]] = []
    x, row = float(_MARGIN), 1
    for entry in legend:
        length = size * 0.9 * len(entry[1]) + font.getlength(entry[0])
        if x > _MARGIN and x + length > width - _MARGIN:
            x, row = float(_MARGIN), row + 1
        spots.append((x, row, entry))
        x += length + size
    strip = Image.new("RGB", (width, line * (row + 1 if legend else 1)), _PAPER)
    draw = ImageDraw.Draw(strip)
    fonts = (ImageFont.load_default(each) for each in range(size, 6, -1))
    fitting = next((each for each in fonts if each.getlength(text) <= width - 2 * _MARGIN), ImageFont.load_default(7))
    draw.text((_MARGIN, line / 2), text, fill=_INK, font=fitting, anchor="lm")
    for left, below, (label, colours) in spots:
        x, y = left, line * (below + 0.5) - 2
        for colour in colours:
            draw.ellipse((x, y - radius, x + 2 * radius, y + radius), fill=colour)
            x += size * 0.9
        draw.text((x, y), label, fill=_INK, font=font, anchor="lm")
    pixels = picture if picture.shape[2] == 3 else picture[..., :3]
    return np.concatenate([np.asarray(pixels, np.uint8), np.asarray(strip)])
