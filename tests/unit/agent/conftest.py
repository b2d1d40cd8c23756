"""The agent started in this very process; tests step their own little trainings."""

from agents import agent, ask_while  # noqa: F401 - fixtures
from recorded import clock  # noqa: F401 - a fixture
