"""Fixtures of the integration tests."""

from agents import agent, ask_while  # noqa: F401 - fixtures
