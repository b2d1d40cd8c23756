"""The numbers of a notebook's cells, where this process is its kernel: with their frames, and in the names of places."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest

from jupyter_traindbg.agent import attributes, sampling
from jupyter_traindbg.agent.probes import stacks

FILE = "/tmp/ipykernel_7/12.py"
SOURCE = "import sys\ndef step():\n    return sys._getframe()\nframe = step()\n"


@pytest.fixture
def frame(monkeypatch: pytest.MonkeyPatch) -> types.FrameType:
    """One in the cell with the number 4 of a kernel whose IPython knows it."""
    compiler = types.SimpleNamespace(_filename_map={FILE: 4})
    shell = type("InteractiveShell", (), {"_instance": types.SimpleNamespace(compile=compiler)})
    module: Any = types.ModuleType("IPython.core.interactiveshell")
    module.InteractiveShell = shell
    monkeypatch.setitem(sys.modules, "IPython.core.interactiveshell", module)
    namespace: dict[str, Any] = {}
    exec(compile(SOURCE, FILE, "exec"), namespace)
    found: types.FrameType = namespace["frame"]
    return found


def test_frames_carry_it(frame: types.FrameType) -> None:
    assert stacks._frames(frame)[0] == (FILE, 3, "step", 4)
    assert sampling.frames_from(frame)[0] == (FILE, 3, "step", 4)
    assert attributes.place(frame) == "In [4], line 3 step"
    assert len(stacks._frames(frame)[-1]) == 3, "of a file there is none"


@pytest.mark.usefixtures("frame")
def test_an_ipython_that_keeps_none_is_left_alone(frame: types.FrameType, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = sys.modules["IPython.core.interactiveshell"].InteractiveShell._instance
    for known in (None, [FILE]):
        monkeypatch.setattr(shell.compile, "_filename_map", known)
        assert stacks._frames(frame)[0] == (FILE, 3, "step")
        assert attributes.place(frame) == f"{FILE}:3 step"
