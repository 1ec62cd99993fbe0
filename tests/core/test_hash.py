"""XXH64 against its specification, written out in Python, and published values."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from relive import _core

MASK = (1 << 64) - 1
P1, P2, P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
P4, P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def rotated(x: int, bits: int) -> int:
    return ((x << bits) | (x >> (64 - bits))) & MASK


def mixed(lane: int, value: int) -> int:
    return rotated((lane + value * P2) & MASK, 31) * P1 & MASK


def xxh64(data: bytes) -> int:
    at = 0
    total = len(data)
    if total >= 32:
        lanes = [(P1 + P2) & MASK, P2, 0, -P1 & MASK]
        while at + 32 <= total:
            for i in range(4):
                lanes[i] = mixed(lanes[i], int.from_bytes(data[at + 8 * i : at + 8 * i + 8], "little"))
            at += 32
        result = sum(rotated(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & MASK
        for lane in lanes:
            result = ((result ^ mixed(0, lane)) * P1 + P4) & MASK
    else:
        result = P5
    result = (result + total) & MASK
    while at + 8 <= total:
        result = (rotated(result ^ mixed(0, int.from_bytes(data[at : at + 8], "little")), 27) * P1 + P4) & MASK
        at += 8
    if at + 4 <= total:
        result = (rotated(result ^ (int.from_bytes(data[at : at + 4], "little") * P1 & MASK), 23) * P2 + P3) & MASK
        at += 4
    while at < total:
        result = rotated(result ^ (data[at] * P5 & MASK), 11) * P1 & MASK
        at += 1
    for shift, prime in ((33, P2), (29, P3)):
        result = (result ^ (result >> shift)) * prime & MASK
    return result ^ (result >> 32)


def hashed(*pieces: bytes) -> int:
    digest = _core.Hash()
    for piece in pieces:
        digest.update(piece)
    return digest.digest()


def test_published_values() -> None:
    assert hashed(b"") == 0xEF46DB3751D8E999
    assert hashed(b"a") == 0xD24EC4F1A98C6E5B
    assert hashed(b"abc") == 0x44BC2CF5AD770999


@given(st.lists(st.binary(max_size=100), max_size=6))
def test_any_pieces_are_hashed_as_their_whole(pieces: list[bytes]) -> None:
    whole = b"".join(pieces)
    assert hashed(*pieces) == hashed(whole) == xxh64(whole)
