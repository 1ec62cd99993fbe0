"""A schema as plain data, for headers of files, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from relive.errors import SchemaError
from relive.messages import brief
from relive.schema.fields import Column, Field, Schema, join_columns, make_column

__all__ = ["from_plain", "to_plain"]

_MOST_FIELDS = 10_000


def to_plain(schema: Schema) -> dict[str, Any]:
    """The schema as dicts, lists, strings and numbers."""
    return {
        "fields": [
            {
                "path": column.key.split("/"),
                "named": _name_place(column),
                "shape": list(column.shape),
                "dtype": column.dtype.name,
                "role": column.role,
            }
            for column in schema
        ],
        "agents": {group: list(names) for group, names in schema.agents.items()},
    }


def from_plain(data: Any) -> Schema:
    """The schema that was described.

    Raises:
        SchemaError: If the data describe none.
    """
    try:
        fields, agents = data["fields"], data["agents"]
        if not isinstance(fields, list) or not 0 < len(fields) <= _MOST_FIELDS:
            raise SchemaError("schema", f"have 1 to {_MOST_FIELDS} fields", brief(fields, 80))
        columns = [_column(entry) for entry in fields]
        named = {_text(group): tuple(_text(name) for name in names) for group, names in agents.items()}
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, SchemaError):
            raise
        raise SchemaError("schema", "be described by fields and agents", brief(data, 80)) from None
    return join_columns(columns, named)


def _name_place(column: Column) -> int:
    """Which part of the path is the field's name: the second in a group, else the first."""
    if column.final_key is None:
        return 0
    parts = zip(column.key.split("/"), column.final_key.split("/"), strict=True)
    return next(place for place, (plain, final) in enumerate(parts) if plain != final)


def _column(entry: Any) -> Column:
    path = [_text(part) for part in entry["path"]]
    place = entry["named"]
    shape = entry["shape"]
    if type(place) is not int or place not in (0, 1) or place >= len(path):
        raise SchemaError("schema", "name fields by their path", brief(entry, 80))
    if not isinstance(shape, list) or any(type(n) is not int or not 0 < n < 2**40 for n in shape):
        raise SchemaError("shape", "have sizes of at least 1", brief(shape, 80))
    dtype = np.dtype(_text(entry["dtype"]))
    role = _text(entry["role"])
    field = Field(tuple(shape), dtype, None if role == "next" else role)  # type: ignore[arg-type]
    return make_column(path[place], field, tuple(path[:place]), tuple(path[place + 1 :]), carried=role == "next")


def _text(value: Any) -> str:
    if not isinstance(value, str) or not 0 <= len(value) <= 1000:
        raise SchemaError("schema", "be described by short names", brief(value, 80))
    return value
