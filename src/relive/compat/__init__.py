"""Drop-in modules: memories of other projects by their own names, on relive's timeline (docs/compat.md)."""
