"""Drop-in modules: memories of other projects by their own names, on recollect's timeline (docs/compat.md)."""
