"""A module or a package an algorithm, with its settings as one frozen dataclass."""
