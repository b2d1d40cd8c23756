"""The probe of collectives, in this process: torch's own recorder and groups, and sends and receives by the frames of a thread."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from flight_dumps import Recorder

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")

from jupyter_traindbg.agent import exchanges  # noqa: E402
from jupyter_traindbg.agent.core import Agent  # noqa: E402
from jupyter_traindbg.agent.flight import Known  # noqa: E402
from jupyter_traindbg.agent.growth import recorded  # noqa: E402
from jupyter_traindbg.agent.probes import collectives  # noqa: E402
from jupyter_traindbg.evidence_collectives import collectives as built  # noqa: E402


@pytest.fixture
def alone() -> Iterator[None]:
    """A process group of this process only."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()


def test_a_recorder_that_fills_up_tells_how_many_calls_are_new(alone: None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in recorded.SIZES:
        monkeypatch.delenv(name, raising=False)
    dist.all_reduce(torch.ones(2))
    time.sleep(0.01)
    since_s = time.time()
    before = recorded.filling(0.0)
    assert before is not None
    assert recorded.filling(since_s) is None
    for _ in range(3):
        dist.all_reduce(torch.ones(2))
    told = recorded.filling(since_s)
    assert told == {"calls": before["calls"] + 3, "new": 3, "most": recorded.USUAL}
    monkeypatch.setenv("TORCH_FR_BUFFER_SIZE", "70000")
    told = recorded.filling(since_s)
    assert told is not None
    assert told["most"] == 70_000


def test_a_recorder_that_is_full_or_missing_explains_no_growth(monkeypatch: pytest.MonkeyPatch) -> None:
    full = Recorder("gloo").call("all_reduce", times=9).dump()
    full["entries"][0]["record_id"] = 4711
    monkeypatch.setattr(recorded, "dump", lambda native, kind: full if kind == "fr" else None)
    assert recorded.filling(0.0) is None
    monkeypatch.setattr(recorded, "dump", lambda native, kind: None)
    assert recorded.filling(0.0) is None


class _Group:
    """A process group that has come as far as operation 6."""

    group_desc = "default_pg"

    def _get_sequence_number_for_group(self) -> int:
        return 6


def _settled(agent: Agent) -> dict[str, Any]:
    """The answer once nothing is under way: gloo's threads note that a call is done a moment after its caller goes on."""
    ends = time.monotonic() + 10
    while True:
        answer: dict[str, Any] = agent.call("collectives", {})
        if all("issued" not in row for row in answer["calls"]) or time.monotonic() > ends:
            return answer


def test_before_there_is_a_group(agent: Agent) -> None:
    answer = agent.call("collectives", {})
    assert (answer["groups"], answer["calls"], answer["note"]) == ([], [], collectives.NOT_IN_USE)


def test_groups_and_calls(agent: Agent, alone: None) -> None:
    other = dist.new_group([0], group_desc="mine")
    dist.all_reduce(torch.ones(3))
    dist.all_reduce(torch.ones(2, dtype=torch.int64), group=other)
    dist.barrier()
    began = time.time()
    seen = built(0, 7, _settled(agent), where="a.py:1 f")
    assert [(g.description, g.backend, g.ranks, g.last_issued, g.last_completed) for g in seen.groups] == [
        ("default_pg", "gloo", (0,), 2, 2),
        ("mine", "gloo", (0,), 1, 1),
    ]
    assert [(c.op, c.sequence, c.input_sizes, c.dtypes, c.state) for c in seen.calls] == [
        ("all_reduce", 1, ((3,),), ("Float",), "completed"),
        ("all_reduce", 1, ((2,),), ("Long",), "completed"),
        ("barrier", 2, (), (), "completed"),
    ]
    assert isinstance(seen.calls[-1].issued_s, float)
    assert abs(seen.calls[-1].issued_s - began) < 60
    assert (seen.source, seen.where, seen.note, seen.pid) == ("agent", "a.py:1 f", "", 7)


def test_a_group_that_was_destroyed_is_gone_and_a_new_one_starts_anew(agent: Agent, alone: None) -> None:
    for _ in range(2):
        other = dist.new_group([0], group_desc="again")
        dist.all_reduce(torch.ones(1), group=other)
        answer = _settled(agent)
        assert [g["last_issued"] for g in answer["groups"] if g["description"] == "again"] == [1]
        dist.destroy_process_group(other)
    answer = _settled(agent)
    assert ([g["description"] for g in answer["groups"]], answer["calls"]) == (["default_pg"], [])


def test_the_group_in_which_compiled_code_asks_all_ranks_is_known(
    agent: Agent, alone: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_dynamo = pytest.importorskip("torch._dynamo.distributed")
    monkeypatch.setattr(of_dynamo, "_GUARD_PG", None)
    dist.all_reduce(torch.ones(1), group=of_dynamo.get_guard_pg())
    assert [g["description"] for g in _settled(agent)["groups"]] == ["default_pg", "pt2_guard_pg"]


def test_a_group_that_met_elsewhere_says_where(agent: Agent, tmp_path: Path) -> None:
    """As trainers make it that share one with an engine: with a store of its own, beside the default group."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'job'}", rank=0, world_size=1)
    try:
        dist.new_group([0])
        store = dist.PrefixStore("weights", dist.FileStore(str(tmp_path / "engine"), 1))
        group, _ = dist.distributed_c10d._new_process_group_helper(
            1, 0, [], "gloo", store, group_name="weights", timeout=timedelta(minutes=1)
        )
        dist.distributed_c10d._world.pg_group_ranks[group] = {0: 0}
        found = built(0, 1, collectives.run(agent))
        assert [(g.name, g.met_at) for g in found.groups] == [
            ("0", ""),
            ("1", ""),
            ("weights", str(tmp_path / "engine")),
        ]
    finally:
        dist.destroy_process_group()


def test_a_torch_without_recorder_still_tells_groups_and_counts(
    agent: Agent, alone: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(torch._C._distributed_c10d, "_dump_fr_trace")
    answer = agent.call("collectives", {})
    assert "no flight recorder for gloo" in answer["note"]
    assert [(g["description"], g["ranks"]) for g in answer["groups"]] == [("default_pg", [0])]


def test_nccl_has_a_recorder_of_its_own(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for torch built with NCCL: its table of groups, and what `_dump_nccl_trace` gives."""
    asked: list[tuple[bool, ...]] = []

    def dump(*options: bool) -> bytes:
        asked.append(options)
        recorder = (
            Recorder("nccl", {"0": ("default_pg", range(2))}).call("all_reduce", times=4).call("broadcast", done=False)
        )
        return pickle.dumps(recorder.dump(), protocol=2)

    group = _Group()
    world = SimpleNamespace(
        pg_map={group: ("cuda:nccl,cpu:gloo", None)},
        pg_names={group: "0"},
        pg_group_ranks={group: {0: 0, 1: 1}},
        default_pg=group,
    )
    monkeypatch.setattr(dist.distributed_c10d, "_world", world)
    monkeypatch.setattr(torch._C._distributed_c10d, "_dump_nccl_trace", dump, raising=False)
    answer = agent.call("collectives", {})
    assert asked == [(True, False, False)], "without stacks, which take seconds"
    of_nccl = next(g for g in answer["groups"] if g["name"] == "0/nccl")
    assert (of_nccl["last_issued"], of_nccl["last_completed"], of_nccl["ranks"]) == (6, 4, [0, 1])
    assert [row[:3] for row in answer["calls"] if row[0] == "0/nccl"][-1] == ["0/nccl", 5, "broadcast"]


# --- sends and receives --------------------------------------------------------------------------------------------

CODE = """
def {op}(tensor, {peer}=None, group=None, tag=0, group_{peer}=None):
    wait()
def program():
    {op}(object(), {given})
"""
GROUP = object()
WORLD = SimpleNamespace(pg_names={GROUP: "5"}, default_pg=GROUP)
GLOO = Known("5", "pp", "gloo", [2, 6], 41)


def under_way(op: str, given: str, known: list[Known], module: str = exchanges.C10D) -> exchanges.Exchange | None:
    """What is seen, twice, of a thread that is inside of torch's `op`."""
    inside, leave = threading.Event(), threading.Event()

    def wait() -> None:
        inside.set()
        leave.wait(20)

    names: dict[str, Any] = {"__name__": module, "wait": wait, "GROUP": GROUP}
    exec(CODE.format(op=op, peer="src" if op == "recv" else "dst", given=given), names)
    thread = threading.Thread(target=names["program"])
    thread.start()
    try:
        assert inside.wait(20)
        first = exchanges.under_way(thread.ident, WORLD, known)
        assert exchanges.under_way(thread.ident, WORLD, known) == first, "it is still the same one, since then"
        return first
    finally:
        leave.set()
        thread.join(20)


@pytest.mark.parametrize(
    ("op", "given"), [("recv", "src=6"), ("send", "dst=6, group=GROUP"), ("recv", "group_src=1, group=GROUP")]
)
def test_a_blocking_send_or_receive_over_gloo(op: str, given: str) -> None:
    found = under_way(op, given, [GLOO])
    assert found is not None
    assert (found.group, found.number, found.op, found.peer) == ("5", 41, op, 6)
    assert abs(found.since_s - time.time()) < 60


def test_a_receive_from_anybody_has_no_peer() -> None:
    found = under_way("recv", "", [GLOO])
    assert found is not None
    assert found.peer is None


def test_nccl_records_its_own_and_other_functions_mean_nothing() -> None:
    assert under_way("recv", "src=6", [GLOO._replace(backend="nccl")]) is None
    assert under_way("recv", "src=6", [GLOO._replace(name="0")]) is None
    assert under_way("recv", "src=6", [GLOO], module="my.sockets") is None
    assert exchanges.under_way(None, WORLD, [GLOO]) is None


def test_the_next_one_is_another_one() -> None:
    first = under_way("recv", "src=6", [GLOO])
    later = under_way("recv", "src=6", [GLOO._replace(number=42)])
    assert first is not None
    assert later is not None
    assert later.since_s > first.since_s
