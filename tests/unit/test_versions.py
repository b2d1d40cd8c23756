"""The version lives in _version.py; what else names it agrees."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

from jupyter_traindbg import __version__

REPO = Path(__file__).parents[2]


def changelog_versions() -> list[str]:
    return re.findall(r"^## (\d+\.\d+\.\d+\S*)", (REPO / "CHANGELOG.md").read_text(), re.MULTILINE)


def test_the_changelog_begins_with_this_version() -> None:
    assert changelog_versions()[0] == __version__


def test_the_changelog_goes_back_in_time() -> None:
    numbers = [tuple(int(n) for n in re.findall(r"\d+", version)) for version in changelog_versions()]
    assert numbers == sorted(numbers, reverse=True)


def test_the_installed_package_is_this_one() -> None:
    assert metadata.version("jupyter-traindbg") == __version__
