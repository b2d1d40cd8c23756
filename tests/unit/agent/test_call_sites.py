"""From where collectives were issued: by torch's own recorder, in this process, and by dumps as NCCL writes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flight_dumps import Recorder

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")

from jupyter_traindbg.agent import flight  # noqa: E402
from jupyter_traindbg.agent.core import Agent  # noqa: E402
from jupyter_traindbg.agent.flight import Known  # noqa: E402
from jupyter_traindbg.agent.probes import call_sites, collectives  # noqa: E402
from jupyter_traindbg.evidence_collectives import call_sites as built  # noqa: E402
from jupyter_traindbg.frames.whose import user_frame  # noqa: E402
from jupyter_traindbg.model import CallSites, NotAvailable  # noqa: E402


@pytest.fixture
def alone() -> Iterator[None]:
    """A process group of this process only, in which an optimizer has made a step."""
    assert torch._inductor
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()


def _reduced(group: Any = None) -> None:
    dist.all_reduce(torch.ones(2), group=group)


def test_each_call_has_the_lines_it_came_from(agent: Agent, alone: None) -> None:
    other = dist.new_group([0])
    for _ in range(3):
        _reduced()
    _reduced(other)
    dist.barrier()
    told = built(agent.call("call_sites", {}))
    assert isinstance(told, CallSites)
    places = [user_frame(site.frames) for site in told.sites]
    assert [
        (site.op, f and f.function, f and Path(f.file).name) for site, f in zip(told.sites, places, strict=True)
    ] == [
        ("all_reduce", "_reduced", "test_call_sites.py"),
        ("barrier", "test_each_call_has_the_lines_it_came_from", "test_call_sites.py"),
        ("all_reduce", "_reduced", "test_call_sites.py"),
    ]
    default, mine = dist.distributed_c10d._world.pg_names.values()
    assert told.at == {default: {1: 0, 2: 0, 3: 0, 4: 1}, mine: {1: 2}}
    callers = [next(f.line for f in site.frames if f.function.startswith("test_")) for site in told.sites]
    assert callers[0] < callers[2] < callers[1]


def test_why_there_is_nothing(agent: Agent, monkeypatch: pytest.MonkeyPatch, alone: None) -> None:
    empty = agent.call("call_sites", {})
    assert (empty["sites"], empty["at"]) == ([], {})
    assert isinstance(built(empty), NotAvailable)
    _reduced()
    with monkeypatch.context() as changed:
        changed.delattr(torch, "_inductor")
        assert agent.call("call_sites", {})["note"] == call_sites.NOT_IMPORTED
    monkeypatch.setenv("TORCH_FR_CPP_STACK", "1")
    assert "TORCH_FR_CPP_STACK is set" in agent.call("call_sites", {})["note"]


def test_without_a_group(agent: Agent) -> None:
    told = built(agent.call("call_sites", {}))
    assert isinstance(told, NotAvailable)
    assert told.reason == collectives.NOT_IN_USE


def test_how_a_module_is_called_and_our_own_wrappers_are_no_part_of_it() -> None:
    stack = [
        ["/v/site-packages/torch/nn/modules/module.py", 1789, "_call_impl"],
        ["/tmp/traindbg-1/_traindbg_agent/steppers.py", 4, "wrapped"],
        ["/home/ada/train.py", 7, "main"],
    ]
    told = built({"sites": [["all_reduce", stack]], "at": {"0": [[1, 0]]}, "note": ""})
    assert isinstance(told, CallSites)
    assert [f.function for f in told.sites[0].frames] == ["main"]


def test_of_a_dump_the_collectives_with_a_stack() -> None:
    step, save = ({"filename": "t.py", "line": line, "name": name} for line, name in ((4, "step"), (9, "save")))
    dump = (
        Recorder("nccl")
        .call("all_reduce", frames=[step], times=2)
        .call("send 0->1", frames=[step])
        .call("all_reduce", frames=[])
        .call("all_gather", frames=[step])
        .call("all_gather", frames=[dict(step)])
        .call("all_reduce", frames=[save])
        .call("all_reduce", frames=[step], new_number=False)
        .dump()
    )
    seen: list[str] = []

    def place(frame: dict[str, Any]) -> list[Any]:
        seen.append(frame["name"])
        return [frame["filename"], frame["line"], frame["name"]]

    told = flight.call_sites([dump], [Known("0", "default_pg", "nccl", (0, 1))], place)
    at_step = [["t.py", 4, "step"]]
    assert told["sites"] == [["all_reduce", at_step], ["all_gather", at_step], ["all_reduce", [["t.py", 9, "save"]]]]
    assert told["at"] == {"0": [[1, 0], [2, 0], [4, 1], [5, 1], [6, 2]]}
    assert seen == ["step", "step", "save"]  # each frame once, the copy by itself
