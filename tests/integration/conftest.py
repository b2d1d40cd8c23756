"""Fixtures of the integration tests."""

from agents import agent, ask_while  # noqa: F401 - fixtures
from checkpointing import client, gate  # noqa: F401 - fixtures
