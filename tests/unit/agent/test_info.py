"""Who a process is, also while torch is being imported."""

from __future__ import annotations

import sys
import types

import pytest

from jupyter_traindbg.agent.probes import info


def test_a_process_that_is_importing_torch_is_known_by_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.distributed", types.ModuleType("torch.distributed"))
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "8")
    assert info._rank() == (3, 8)


def test_a_process_group_knows_better_than_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    joined = types.ModuleType("torch.distributed")
    joined.is_initialized = lambda: True  # type: ignore[attr-defined]
    joined.get_rank, joined.get_world_size = lambda: 1, lambda: 2  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.distributed", joined)
    monkeypatch.setenv("RANK", "3")
    assert info._rank() == (1, 2)
