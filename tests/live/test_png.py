"""Pictures as PNG."""

import io

import numpy as np
import pytest
from PIL import Image

from relive.live.png import encode_png


@pytest.mark.parametrize("shape", [(5, 7), (5, 7, 3)])
def test_pictures_come_back(shape: tuple[int, ...]) -> None:
    picture = np.random.default_rng(0).integers(0, 255, shape, np.uint8)
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(encode_png(picture)))), picture)
