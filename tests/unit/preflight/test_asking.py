"""How the options of ``nccl-check --preflight`` are understood, and what contradicts itself."""

from __future__ import annotations

import argparse
from typing import Any

import pytest
from cases import each

from jupyter_traindbg.errors import UsageError
from jupyter_traindbg.magics import base, before_a_start
from jupyter_traindbg.preflight import machine
from jupyter_traindbg.questions.jobless import preflight
from jupyter_traindbg.questions.jobless.preflight import PlannedJob


def parsed(words: str) -> argparse.Namespace:
    return base.parser("nccl_check").parse_args(words.split())


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[PlannedJob]:
    """The jobs that were to be looked at, instead of a look."""
    jobs: list[PlannedJob] = []
    monkeypatch.setattr(preflight, "ask", lambda job, timeout: jobs.append(job))
    return jobs


@each(
    ("words", "expected"),
    [
        ("--preflight", {}),
        ("--nnodes 2", {"nodes": 2}),
        ("--nnodes 1:4 --nproc-per-node 8", {"nodes": 4, "per_node": 8}),
        ("--nproc-per-node gpu", {}),
        ("--rdzv-endpoint node0:29400", {"address": "node0", "port": 29400}),
        ("--rdzv-endpoint node0", {"address": "node0"}),
        ("--rdzv-endpoint [fd00::7]:29400", {"address": "fd00::7", "port": 29400}),
        ("--rdzv-endpoint [fd00::7]", {"address": "fd00::7"}),
        ("--master-addr node0 --master-port 1234", {"address": "node0", "port": 1234}),
        ("--hosts a,b c", {"hosts": ("a", "b", "c")}),
        ("--backend gloo --all-reduce 2", {"backend": "gloo", "all_reduce": 2}),
    ],
)
def test_options_are_those_of_torchrun(words: str, expected: dict[str, Any], asked: list[PlannedJob]) -> None:
    args = parsed(words)
    assert before_a_start.asked(args)
    before_a_start.run(args)
    assert [asked.pop()] == [PlannedJob(**expected)]
    assert asked == []


def test_without_them_it_is_not_asked_for() -> None:
    assert not before_a_start.asked(parsed(""))
    assert not before_a_start.asked(parsed("4711 --timeout 3"))


@each(
    ("words", "said"),
    [
        ("--preflight 4711", "'4711' is a job or a dump"),
        ("--nnodes many", "'many' is no number of machines"),
        ("--nnodes 0", "'0' is no number of machines"),
        ("--nproc-per-node x", "'x' is no number of processes"),
        ("--rdzv-endpoint a:b", "'a:b' is no HOST:PORT"),
        ("--rdzv-endpoint a --master-addr b", "say the same"),
        ("--master-port 70000", "70000 is no port"),
        ("--all-reduce 1", "two processes at least"),
        ("--all-reduce 2 --backend nccl", "there are 0 here"),
    ],
)
def test_what_contradicts_itself_is_refused(words: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr(machine, "visible_gpus", lambda gpus: 0)
    with pytest.raises(UsageError, match=said):
        before_a_start.run(parsed(words))
