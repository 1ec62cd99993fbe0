"""Schemas as plain data, and back."""

from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np
import pytest

import relive as rl
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
    ("change", "message"),
    [
        (lambda data: data.pop("agents"), "schema must be described by fields and agents, got {"),
        (lambda data: data.update(fields=[]), "schema must have 1 to 10000 fields, got []"),
        (lambda data: data.update(fields=3), "schema must have 1 to 10000 fields, got 3"),
        (lambda data: data["fields"][0].update(named=2), "schema must name fields by their path, got {"),
        (lambda data: data["fields"][0].update(named=True), "schema must name fields by their path, got {"),
        (lambda data: data["fields"][0].update(shape=[0]), "shape must have sizes of at least 1, got [0]"),
        (lambda data: data["fields"][0].update(shape=[2.0]), "shape must have sizes of at least 1, got [2.0]"),
        (lambda data: data["fields"][0].update(dtype="floot"), "schema must be described by fields and agents, got {"),
        (lambda data: data["fields"][0].update(path=[7]), "schema must be described by short names, got 7"),
        (lambda data: data["fields"][0].update(path=["x" * 1001]), "schema must be described by short names, got 'xx"),
    ],
)
def test_data_that_describe_none(change: Any, message: str) -> None:
    data = copy.deepcopy(to_plain(SCHEMAS[0]))
    change(data)
    with pytest.raises(SchemaError) as refused:
        from_plain(data)
    assert str(refused.value).startswith(message)
