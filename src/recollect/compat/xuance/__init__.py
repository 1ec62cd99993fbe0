"""XuanCe's memories: ``memory_tools`` for one agent, ``memory_tools_marl`` for many."""
