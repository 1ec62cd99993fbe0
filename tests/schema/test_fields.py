"""Fields and schemas: what they become and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import relive as rl
from refusals import refused
from relive.errors import SchemaError


def test_roles_come_from_names() -> None:
    schema = rl.Schema(obs=rl.Field((2,)), state=rl.Field((3,)), action=rl.Field((), "uint8"))
    assert [(c.key, c.role) for c in schema] == [
        ("obs", "observed"),
        ("state", "observed"),
        ("action", "action"),
        ("reward", "reward"),
    ]
    assert schema["obs"].final_key == "final_obs"
    assert schema["obs"].next_key == "next_obs"
    assert schema["action"].final_key is None


def test_roles_can_be_given() -> None:
    schema = rl.Schema(pixels=rl.Field((2,), role="observed"), reward=rl.Field((3,), "float64"))
    assert [c.role for c in schema] == ["observed", "reward"]


def test_usual_names_have_the_roles_that_they_suggest() -> None:
    schema = rl.Schema(observations=rl.Field((2,)), actions=rl.Field((), "uint8"), rewards=rl.Field((3,)))
    assert [(c.key, c.role) for c in schema] == [
        ("observations", "observed"),
        ("actions", "action"),
        ("rewards", "reward"),
    ]
    assert schema["observations"].next_key == "next_observations"
    assert rl.Schema(observation=rl.Field())["observation"].role == "observed"
    assert rl.Schema(pixels=rl.Field())["pixels"].role == "observed"


def test_a_word_inside_a_name_decides_nothing() -> None:
    schema = rl.Schema(obs=rl.Field(), last_action=rl.Field((), "uint8"), reward_scale=rl.Field(), obs_count=rl.Field())
    assert {schema[key].role for key in ("last_action", "reward_scale", "obs_count")} == {"plain"}
    assert schema.action_keys == set()
    assert rl.Schema(obs=rl.Field(), move=rl.Field((), "uint8", "action")).action_keys == {"move"}


@pytest.mark.parametrize(
    "fields", [{"sight": rl.Field((4,))}, {"action": rl.Field((), "uint8")}, {"reward": rl.Field()}]
)
def test_a_schema_that_observes_nothing_is_refused(fields: dict[str, Any]) -> None:
    """Unless every one of its fields says so: without observations there is no next observation."""
    with pytest.raises(SchemaError) as caught:
        rl.Schema(**fields)
    assert "role='observed'" in caught.value.problem.remedy
    stated = {name: rl.Field(field.shape, field.dtype, "plain") for name, field in fields.items()}
    assert all(column.role == "plain" for column in rl.Schema(**{"reward": None, **stated}))
    with pytest.raises(SchemaError):
        rl.Schema(**stated, other=rl.Field())
    assert rl.Schema(**fields, obs=rl.Field())["obs"].next_key == "next_obs"


@pytest.mark.parametrize("name", ["image", "frames", "act", "rew", "done", "terminals", "obs_next"])
def test_names_that_suggest_a_role_must_state_it(name: str) -> None:
    with pytest.raises(SchemaError) as caught:
        rl.Schema(obs=rl.Field(), **{name: rl.Field()})
    assert (caught.value.problem.name, caught.value.problem.rule) == (name, "state its role")
    assert caught.value.problem.remedy
    assert rl.Schema(obs=rl.Field(), **{name: rl.Field(role="plain")})[name].role == "plain"
    with pytest.raises(SchemaError):
        rl.Schema(obs=rl.Field()).with_fields(**{name: rl.Field()})


def test_nested_fields_and_groups_have_paths() -> None:
    schema = rl.Schema(
        hunter=rl.Group(obs={"eye": rl.Field((2,)), "ear": rl.Field()}, action=rl.Field((), "uint8")),
        state=rl.Field((4,)),
    )
    assert [c.key for c in schema] == ["hunter/obs/eye", "hunter/obs/ear", "hunter/action", "state"]
    assert schema["hunter/obs/eye"].final_key == "hunter/final_obs/eye"
    assert schema["hunter/obs/eye"].next_key == "hunter/next_obs/eye"
    assert {"hunter", "hunter/obs", "hunter/final_obs"} <= schema.branches


def test_own_next_fields_make_it_loose() -> None:
    assert rl.Schema(obs=rl.Field((2,)), next_obs=rl.Field((2,))).loose
    assert not rl.Schema(obs=rl.Field((2,))).loose


def test_row_bytes() -> None:
    assert rl.Schema(obs=rl.Field((17,)), action=rl.Field((), "uint8")).row_nbytes == 17 * 4 + 1 + 4


def test_equality_and_repr() -> None:
    one, two = (rl.Schema(obs=rl.Field((2, 3), "uint8"), reward=None) for _ in range(2))
    assert one == two
    assert hash(one) == hash(two)
    assert one != rl.Schema(obs=rl.Field((2, 3)))
    assert repr(one) == "Schema(obs: uint8[2, 3])"


def deep(levels: int) -> Any:
    return rl.Field() if levels == 0 else {"a": deep(levels - 1)}


def endless() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


@pytest.mark.parametrize(
    ("make", "about"),
    [
        (lambda: rl.Field((0,)), "shape"),
        (lambda: rl.Field((2,), "wat"), "dtype"),
        (
            lambda: rl.Field((2,), object),
            "dtype",
        ),
        (
            lambda: rl.Field((2,), role="seen"),  # type: ignore[arg-type]
            "role",
        ),
        (
            lambda: rl.Schema(reward=None),
            "schema",
        ),
        (
            lambda: rl.Schema(),
            "schema",
        ),
        (
            lambda: rl.Schema(weights=rl.Field()),
            "field name",
        ),
        (
            lambda: rl.Schema(size=rl.Field()),
            "field name",
        ),
        (
            lambda: rl.Schema(keys=rl.Field()),
            "field name",
        ),
        (lambda: rl.Schema(**{"a b": rl.Field()}), "field name"),
        (lambda: rl.Field(None), "shape"),  # type: ignore[arg-type]
        (lambda: rl.Field((), None), "dtype"),
        (lambda: rl.Schema(obs={}), "obs"),
        (
            lambda: rl.Schema(obs=rl.Field(), next_obs=rl.Field(role="plain")),
            "next_obs",
        ),
        (lambda: rl.Schema(obs=(2,)), "obs/0"),
        (
            lambda: rl.Schema(reward=rl.Field((), "int32")),
            "reward",
        ),
        (
            lambda: rl.Schema(obs=rl.Field(), state=rl.Field(), next_obs=rl.Field()),
            "next_state",
        ),
        (
            lambda: rl.Schema(obs=rl.Field((2,)), next_obs=rl.Field((3,))),
            "next_obs",
        ),
        (
            lambda: rl.Schema(obs=rl.Field(), next_obs=rl.Field(), next_food=rl.Field()),
            "next_food",
        ),
        (lambda: rl.Schema(obs=rl.Field())["obx"], "field"),
        (lambda: rl.Schema(obs={"a/b": rl.Field()}), "obs"),
        (lambda: rl.Schema(obs=deep(33)), "obs"),
        (lambda: rl.Schema(obs=endless()), "obs"),
    ],
)
def test_what_is_refused(make: Any, about: str) -> None:
    with refused(SchemaError, about):
        make()


def test_byte_order_is_the_machines() -> None:
    assert rl.Field((), ">f4").dtype == np.dtype("float32")


def test_deep_observations() -> None:
    memory = rl.Memory(rl.Schema(obs=deep(32)), capacity=10)
    assert next(column.key for column in memory.schema).count("/") == 32
