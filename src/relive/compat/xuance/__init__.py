"""XuanCe's memories: ``memory_tools`` for one agent, ``memory_tools_marl`` for many, ``memory_offline`` for data sets.

These are the modules of XuanCe 1.2 to 1.4; those of 1.0 and 1.1 are in ``relive.compat.xuance.v1_1``. ``install()``
puts the right ones in the place of XuanCe's own.
"""

from relive.compat.xuance.installing import install

__all__ = ["install"]
