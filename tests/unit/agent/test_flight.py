"""A flight recorder's dump in rows: libraries, groups, counts, states, whatever a file may hold."""

from __future__ import annotations

import random
from typing import Any

import pytest
from cases import each
from flight_dumps import Recorder

from jupyter_traindbg.agent import flight
from jupyter_traindbg.agent.flight import Known

WORLD = {"0": ("default_pg", [0, 1])}


def rows(summary: dict[str, Any]) -> list[dict[str, Any]]:
    return [dict(zip(summary["fields"], row, strict=True)) for row in summary["calls"]]


def group(summary: dict[str, Any], name: str = "0") -> dict[str, Any]:
    found: dict[str, Any] = next(g for g in summary["groups"] if g["name"] == name)
    return found


@each("library", ["nccl", "gloo"])
def test_counts_and_states(library: str) -> None:
    recorder = Recorder(library, WORLD).call("all_reduce", times=3).call("barrier", done=False)
    summary = flight.summary([recorder.dump()], [Known("0", "default_pg", library, [0, 1])])
    assert group(summary) == {
        "name": "0", "description": "default_pg", "backend": library, "ranks": [0, 1], "last_issued": 4, "last_completed": 3, "met_at": "",
    }  # fmt: skip
    assert [r["state"] for r in rows(summary)] == ["completed"] * 3 + ["issued"]
    last = rows(summary)[-1]
    assert (last["op"], last["sequence"], last["input_sizes"], last["p2p"]) == ("barrier", 4, [], False)
    assert last["issued_s"] == pytest.approx(1_790_000_000.03)
    assert summary["overwritten"] is False


def test_the_time_out_of_a_call_is_told_where_the_recorder_has_it() -> None:
    dump = Recorder("nccl", WORLD).call("all_reduce", times=4).dump()
    for entry, told in zip(dump["entries"], (45_000, "nonsense", -5, None), strict=True):
        entry["timeout_ms"] = told
    assert [row["timeout_s"] for row in rows(flight.summary([dump]))] == [45.0, None, None, None]


def test_retired_is_not_done_with_nccl() -> None:
    """torch retires a call that has timed out."""
    recorder = Recorder("nccl", WORLD).call("all_reduce", done=False, retired=True)
    assert rows(flight.summary([recorder.dump()]))[0]["state"] == "issued"


def test_sends_and_receives_know_their_peer_by_its_global_rank() -> None:
    recorder = Recorder("nccl", {"0": ("default_pg", range(8)), "5": ("pp", [2, 6])})
    recorder.call("send 0->1", "5", done=False).call("recv 0<-1", "5", done=False)
    found = rows(flight.summary([recorder.dump()]))
    assert [(r["op"], r["peer"], r["p2p"], r["sequence"]) for r in found] == [
        ("send", 6, True, 1),
        ("recv", 6, True, 2),
    ]


def test_a_group_that_nobody_used_has_issued_nothing() -> None:
    summary = flight.summary([Recorder("gloo").dump()], [Known("7", "undefined", "gloo", [1], 0)])
    assert group(summary, "7")["last_issued"] == 0
    assert group(summary, "7")["description"] == ""


def test_a_ring_that_has_forgotten_says_so_and_claims_nothing() -> None:
    recorder = Recorder("gloo", WORLD).call("all_reduce", "0").call("all_reduce", "1", times=9)
    summary = flight.summary([recorder.dump(last=5)], [Known("0", "default_pg", "gloo", [0, 1], 1)])
    assert summary["overwritten"] is True
    assert group(summary, "0")["last_issued"] is None
    assert group(summary, "1")["last_issued"] == 9


def test_nccl_counts_before_it_records() -> None:
    """All ranks have to come for the first communicator: a rank that waits there has issued the call, and no entry yet."""
    summary = flight.summary([Recorder("nccl").dump()], [Known("0", "default_pg", "nccl", [0, 1], 1)])
    assert (group(summary)["last_issued"], group(summary)["last_completed"]) == (1, 0)


def test_the_group_before_of_the_same_name_does_not_count() -> None:
    before = Recorder("gloo", WORLD).call("all_reduce", times=50, pg_id=0)
    now = Recorder("gloo", WORLD).call("all_reduce", times=2, pg_id=3)
    dump = {**before.dump(), "entries": before.entries + now.entries}
    assert group(flight.summary([dump]))["last_issued"] == 2


def test_a_group_that_is_new_has_not_issued_what_one_of_its_name_did_before() -> None:
    recorder = Recorder("gloo", WORLD).call("all_reduce", times=50)
    summary = flight.summary([recorder.dump()], [Known("0", "default_pg", "gloo", [0, 1], 0)])
    assert (group(summary)["last_issued"], summary["calls"]) == (0, [])


def test_one_group_with_two_libraries_is_two() -> None:
    """`init_process_group("cpu:gloo,cuda:nccl")`, as accelerate has it."""
    known = [Known("0", "default_pg", "cpu:gloo,cuda:nccl", [0, 1], 3)]
    dumps = [Recorder("nccl").call("all_reduce", times=3).dump(), Recorder("gloo").call("all_gather").dump()]
    summary = flight.summary(dumps, known)
    assert group(summary, "0/nccl")["last_issued"] == 3
    assert group(summary, "0/gloo")["last_issued"] == 1
    assert group(summary, "0/gloo")["ranks"] == [0, 1]


def test_groups_without_a_name_are_numbered_and_told_apart() -> None:
    recorder = Recorder("gloo").call("all_reduce", process_group=("", ""), pg_id=4)
    assert rows(flight.summary([recorder.dump()]))[0]["group"] == "#4"


GROUPS = {**WORLD, "3": ("tp", [0, 1]), "7": ("pp", [0, 1]), "12": ("dp", [0, 1])}


def counted() -> Recorder:
    """On "3" a call is under way, on "7" a receive; what was issued on "12" has ended."""
    recorder = Recorder("nccl", GROUPS).call("all_reduce", "12", times=40).call("all_gather", "3", times=9)
    recorder.call("all_reduce", "7", times=2).call("recv 0<-1", "7", times=30, done=False)
    return recorder.call("all_gather", "3", done=False)


def test_counts_of_groups_without_a_call_in_the_dump_come_from_its_status() -> None:
    summary = flight.summary([counted().dump(active=True)])
    assert (summary["overwritten"], summary["pending_only"]) == (True, True)
    found = {name: (group(summary, name)["last_issued"], group(summary, name)["last_completed"]) for name in GROUPS}
    assert found == {"0": (0, 0), "3": (10, 9), "7": (2, 2), "12": (40, 40)}, "sends and receives are not counted"


def test_a_dump_with_counts_alone() -> None:
    dump = {**Recorder("nccl", GROUPS).call("all_gather", "3", times=9).dump(active=True), "nccl_version": "2.26.2"}
    summary = flight.summary([dump])
    assert summary["calls"] == []
    assert summary["pending_only"] is True
    assert (group(summary, "3")["last_issued"], group(summary, "3")["backend"]) == (9, "nccl")


@each(
    "change",
    [
        {"pg_status": {"0": {}, "1": {}, "2": {}}},
        {"pg_status": {str(n): {"last_enqueued_collective": 5} for n in (5, 6, 7, 8)}},
        {"pg_config": {}},
    ],
)
def test_counts_that_cannot_be_told_to_be_of_a_group_are_not_used(change: dict[str, Any]) -> None:
    summary = flight.summary([{**counted().dump(active=True), **change}])
    assert group(summary, "3")["last_issued"] == 10, "that is what the call in the dump says"
    assert all(g["last_issued"] is None for g in summary["groups"] if g["name"] in ("0", "12"))


def test_ranks_that_no_job_has_are_not_believed() -> None:
    recorder = Recorder("nccl", {"0": ("default_pg", [0, 1, 999_999_999])}).call("all_reduce")
    assert group(flight.summary([recorder.dump()]))["ranks"] == [0, 1]


def test_only_the_last_calls_of_each_group_and_all_that_are_under_way() -> None:
    recorder = Recorder("nccl", {**WORLD, "1": ("tp", [0, 1])})
    recorder.call("all_gather", "1", times=3).call("all_reduce", times=300).call("all_reduce", times=40, done=False)
    found = rows(flight.summary([recorder.dump()], last=10))
    assert [r["sequence"] for r in found if r["group"] == "0"] == [*range(291, 301), *range(301, 341)]
    assert [r["sequence"] for r in found if r["group"] == "1"] == [1, 2, 3]


def test_the_form_of_torch_2_2() -> None:
    entry = {
        "record_id": 0,
        "pg_id": 0,
        "seq_id": 7,
        "profiling_name": "nccl:all_reduce",
        "time_created_us": 1.79e15,
        "state": "started",
    }
    row = rows(flight.summary([{"entries": [entry]}]))[0]
    assert (row["sequence"], row["state"], row["issued_s"]) == (7, "started", pytest.approx(1.79e9))


ODD: list[Any] = [
    None,
    True,
    -1,
    2**80,
    1e400,
    "",
    "nccl:",
    "x" * 10_000,
    [],
    [[]],
    [["a", None]],
    {},
    {"a": 1},
    (1,),
    b"bytes",
]


def test_whatever_a_file_holds_is_read_without_an_error() -> None:
    random.seed(4)
    for _ in range(300):
        dump = Recorder("nccl", WORLD).call("all_reduce", times=2).call("send 0->1").dump()
        for where in [dump, *dump["entries"]]:
            for key in random.sample(sorted(where), 2):
                where[key] = random.choice(ODD)
        summary = flight.summary([dump])
        for row in rows(summary):
            assert isinstance(row["sequence"], int)
            assert isinstance(row["op"], str)
            assert len(row["op"]) <= flight.LONGEST_NAME
