"""Fields and schemas: what they become and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import recollect as rc
from recollect.errors import SchemaError


def test_roles_come_from_names() -> None:
    schema = rc.Schema(obs=rc.Field((2,)), state=rc.Field((3,)), action=rc.Field((), "uint8"))
    assert [(c.key, c.role) for c in schema] == [
        ("obs", "observed"),
        ("state", "observed"),
        ("action", "plain"),
        ("reward", "reward"),
    ]
    assert schema["obs"].final_key == "final_obs"
    assert schema["obs"].next_key == "next_obs"
    assert schema["action"].final_key is None


def test_roles_can_be_given() -> None:
    schema = rc.Schema(pixels=rc.Field((2,), role="observed"), reward=rc.Field((3,), "float64"))
    assert [c.role for c in schema] == ["observed", "reward"]


def test_nested_fields_and_groups_have_paths() -> None:
    schema = rc.Schema(
        hunter=rc.Group(obs={"eye": rc.Field((2,)), "ear": rc.Field()}, action=rc.Field((), "uint8")),
        state=rc.Field((4,)),
    )
    assert [c.key for c in schema] == ["hunter/obs/eye", "hunter/obs/ear", "hunter/action", "state"]
    assert schema["hunter/obs/eye"].final_key == "hunter/final_obs/eye"
    assert schema["hunter/obs/eye"].next_key == "hunter/next_obs/eye"
    assert {"hunter", "hunter/obs", "hunter/final_obs"} <= schema.branches


def test_own_next_fields_make_it_loose() -> None:
    assert rc.Schema(obs=rc.Field((2,)), next_obs=rc.Field((2,))).loose
    assert not rc.Schema(obs=rc.Field((2,))).loose


def test_row_bytes() -> None:
    assert rc.Schema(obs=rc.Field((17,)), action=rc.Field((), "uint8")).row_nbytes == 17 * 4 + 1 + 4


def test_equality_and_repr() -> None:
    one, two = (rc.Schema(obs=rc.Field((2, 3), "uint8"), reward=None) for _ in range(2))
    assert one == two
    assert hash(one) == hash(two)
    assert one != rc.Schema(obs=rc.Field((2, 3)))
    assert repr(one) == "Schema(obs: uint8[2, 3])"


def deep(levels: int) -> Any:
    return rc.Field() if levels == 0 else {"a": deep(levels - 1)}


def endless() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rc.Field((0,)), "shape must have at most 24 sizes of at least 1, got (0,). Leave empty axes out."),
        (lambda: rc.Field((2,), "wat"), "dtype must be a NumPy dtype, got 'wat'"),
        (
            lambda: rc.Field((2,), object),
            "dtype must be boolean, whole or float of at most 8 bytes, got object. Encode it as numbers.",
        ),
        (
            lambda: rc.Field((2,), role="seen"),  # type: ignore[arg-type]
            "role must be 'observed', 'reward', 'plain' or None, got 'seen'",
        ),
        (
            lambda: rc.Schema(reward=None),
            "schema must have at least one field, got none. For example: Schema(obs=Field((4,))).",
        ),
        (
            lambda: rc.Schema(weights=rc.Field()),
            "field name must not be one that a step or batch uses itself, got 'weights'. Choose another name.",
        ),
        (
            lambda: rc.Schema(keys=rc.Field()),
            "field name must not be one that a step or batch uses itself, got 'keys'. Choose another name.",
        ),
        (lambda: rc.Schema(**{"a b": rc.Field()}), "field name must be an identifier, got 'a b'. Choose another name."),
        (lambda: rc.Field(None), "shape must have at most 24 sizes of at least 1, got None. Leave empty axes out."),  # type: ignore[arg-type]
        (lambda: rc.Field((), None), "dtype must be a NumPy dtype, got None"),
        (lambda: rc.Schema(obs={}), "obs must hold at least one field, got {}"),
        (
            lambda: rc.Schema(obs=rc.Field(), next_obs=rc.Field(role="plain")),
            "next_obs must not have a role of its own beside the field it follows, got one. Leave role out.",
        ),
        (lambda: rc.Schema(obs=(2,)), "obs/0 must be a Field, or a mapping or tuple of them, got 2"),
        (
            lambda: rc.Schema(reward=rc.Field((), "int32")),
            "reward must be float32 or float64 as a reward, got int32. Give it the role 'plain'.",
        ),
        (
            lambda: rc.Schema(obs=rc.Field(), state=rc.Field(), next_obs=rc.Field()),
            "next_state must be given, as other next fields are, got nothing. Give all of them or none.",
        ),
        (
            lambda: rc.Schema(obs=rc.Field((2,)), next_obs=rc.Field((3,))),
            "next_obs must have the shape and dtype of obs, got next_obs: float32[3]",
        ),
        (
            lambda: rc.Schema(obs=rc.Field(), next_obs=rc.Field(), next_food=rc.Field()),
            "next_food must belong to an observed field, got none of that name. Give that field the role 'observed'.",
        ),
        (lambda: rc.Schema(obs=rc.Field())["obx"], "field must be one of obs, reward, got 'obx'"),
        (lambda: rc.Schema(obs={"a/b": rc.Field()}), "obs must be nested under names without a slash, got 'a/b'"),
        (lambda: rc.Schema(obs=deep(33)), "obs must be nested at most 32 levels deep, got 33"),
        (lambda: rc.Schema(obs=endless()), "obs must be nested at most 32 levels deep, got 33"),
    ],
)
def test_what_is_refused(make: Any, message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        make()
    assert str(caught.value) == message


def test_byte_order_is_the_machines() -> None:
    assert rc.Field((), ">f4").dtype == np.dtype("float32")


def test_deep_observations() -> None:
    memory = rc.Memory(rc.Schema(obs=deep(32)), capacity=10)
    assert next(column.key for column in memory.schema).count("/") == 32
