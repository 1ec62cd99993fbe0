"""Schemas as plain data, and back."""

from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np
import pytest

import relive as rl
from refusals import refused
from relive.errors import SchemaError
from relive.schema.describe import from_plain, to_plain

SCHEMAS = [
    rl.Schema(obs=rl.Field((2,)), action=rl.Field((), "uint8")),
    rl.Schema(obs={"image": rl.Field((8, 8), "uint8"), "speed": rl.Field()}, action=rl.Field((), "int64")),
    rl.Schema(obs=rl.Field((2,)), next_obs=rl.Field((2,)), reward=rl.Field((3,), np.float64)),
    rl.Schema(
        red=rl.Group(obs={"eye": rl.Field((2,)), "ear": rl.Field()}, action=rl.Field((), "uint8")),
        blue=rl.Group(obs=rl.Field((5,)), action=rl.Field((2,))),
        reward=rl.Field(),
    ),
]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_there_and_back_by_way_of_json(schema: rl.Schema) -> None:
    again = from_plain(json.loads(json.dumps(to_plain(schema))))
    assert again == schema
    assert [(c.key, c.final_key, c.role, c.shape, c.dtype) for c in again] == [
        (c.key, c.final_key, c.role, c.shape, c.dtype) for c in schema
    ]


@pytest.mark.parametrize(
    ("change", "about"),
    [
        (lambda data: data.pop("agents"), "schema"),
        (lambda data: data.update(fields=[]), "schema"),
        (lambda data: data.update(fields=3), "schema"),
        (lambda data: data["fields"][0].update(named=2), "schema"),
        (lambda data: data["fields"][0].update(named=True), "schema"),
        (lambda data: data["fields"][0].update(shape=[0]), "shape"),
        (lambda data: data["fields"][0].update(shape=[2.0]), "shape"),
        (lambda data: data["fields"][0].update(dtype="floot"), "schema"),
        (lambda data: data["fields"][0].update(path=[7]), "schema"),
        (lambda data: data["fields"][0].update(path=["x" * 1001]), "schema"),
    ],
)
def test_data_that_describe_none(change: Any, about: str) -> None:
    data = copy.deepcopy(to_plain(SCHEMAS[0]))
    change(data)
    with refused(SchemaError, about):
        from_plain(data)
