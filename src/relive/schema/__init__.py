"""Fields, groups of agents, and how both come from spaces."""

from relive.schema.fields import Column, Field, Group, Role, Schema

__all__ = ["Column", "Field", "Group", "Role", "Schema"]
