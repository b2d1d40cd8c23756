"""The source of a notebook's cell, as the kernel keeps it."""

from __future__ import annotations

import linecache
from pathlib import Path
from typing import Any

import pytest

from jupyter_traindbg.agent.probes import cell

AGENT: Any = None
"""The probe asks nothing of it."""


def test_a_cell_is_known_by_the_name_that_its_frames_have(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["with lock:\n", "    pass\n"]
    monkeypatch.setitem(linecache.cache, "/tmp/ipykernel_7/12.py", (22, None, lines, "/tmp/ipykernel_7/12.py"))
    assert cell.run(AGENT, "/tmp/ipykernel_7/12.py") == {"text": "with lock:\n    pass\n"}
    assert cell.run(AGENT, "/tmp/ipykernel_7/13.py") == {"text": None}


def test_a_file_on_disk_is_none_whatever_the_cache_holds_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "train.py"
    script.write_text("with lock:\n    pass\n")
    monkeypatch.setattr(linecache, "cache", {})
    assert linecache.getlines(str(script))
    assert cell.run(AGENT, str(script)) == {"text": None}


def test_what_is_not_read_yet_and_what_is_too_long_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    lazy: Any = (lambda: "x = 1",)
    monkeypatch.setitem(linecache.cache, "lazy", lazy)
    monkeypatch.setitem(linecache.cache, "long", (1, None, ["x" * 2**18, "y"], "long"))
    assert cell.run(AGENT, "lazy") == {"text": None}
    assert cell.run(AGENT, "long") == {"text": None}
