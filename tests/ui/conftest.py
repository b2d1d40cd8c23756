"""Fixtures of the tests in a real browser; what they are made of is in tests/browsers.py, where tests can import it from."""

from browsers import chromium, lab, open_notebook, page, screenshot  # noqa: F401 - fixtures
from panels import acting_lab, panel, picture, training  # noqa: F401 - fixtures
