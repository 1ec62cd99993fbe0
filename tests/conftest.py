"""Profiles of the property tests: ``pytest --hypothesis-profile=slow`` for thousands of examples."""

from hypothesis import settings

settings.register_profile("fast", max_examples=200, deadline=None, derandomize=True)
settings.register_profile("slow", max_examples=2500, deadline=None)
settings.load_profile("fast")
