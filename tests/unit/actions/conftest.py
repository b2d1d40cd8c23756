"""Fixtures of the tests of actions."""

from played_ranks import cast  # noqa: F401 - a fixture
