"""Who stopped in the middle of a call, from recorders alone; and dumps that hold little, which say what can be said."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from cases import each
from flight_dumps import Recorder

from jupyter_traindbg.agent import flight
from jupyter_traindbg.diagnose.collectives import findings, unexplained
from jupyter_traindbg.model import Finding, RankCollectives
from jupyter_traindbg.outside.flightrec.build import rank_collectives

RANKS = range(8)
TENSOR = {"1": [0, 1], "2": [2, 3], "3": [4, 5], "4": [6, 7]}
DATA = {"5": [0, 2, 4, 6], "6": [1, 3, 5, 7]}
GROUPS: dict[str, tuple[str, Sequence[int]]] = {
    "0": ("default_pg", RANKS),
    **{name: ("tp", ranks) for name, ranks in TENSOR.items()},
    **{name: ("dp", ranks) for name, ranks in DATA.items()},
}


def of(rank: int, groups: dict[str, list[int]]) -> str:
    return next(name for name, ranks in groups.items() if rank in ranks)


def trained(halted: Sequence[int] = (), queued: int = 6, ahead: int = 3) -> list[Recorder]:
    """A step: three calls among tensor-parallel pairs and one among data-parallel ranks. All have queued `queued` steps that do not end; of
    these `ahead` have ended on the others, and only on them.
    """
    made = [Recorder("nccl", {n: g for n, g in GROUPS.items() if rank in g[1]}) for rank in RANKS]
    for rank, recorder in enumerate(made):
        step(recorder, rank, times=5)
        step(recorder, rank, times=queued - ahead, done=rank not in halted)
        step(recorder, rank, times=ahead, done=False)
    return made


def step(recorder: Recorder, rank: int, *, times: int, **changes: Any) -> None:
    for _ in range(times):
        recorder.call("_all_gather_base", of(rank, TENSOR), **changes)
        recorder.call("_reduce_scatter_base", of(rank, TENSOR), **changes)
        recorder.call("all_reduce", of(rank, DATA), **changes)


def records(made: Sequence[Recorder], *, active: bool = False, waited_s: float = 30.0) -> list[RankCollectives]:
    newest = max(e["time_created_ns"] for r in made for e in r.entries) / 1e9
    return [
        rank_collectives(
            rank, 0, {**flight.summary([one.dump(active=active)]), "now_s": newest + waited_s}, source=f"rank_{rank}"
        )
        for rank, one in enumerate(made)
    ]


def only(found: Sequence[Finding]) -> Finding:
    assert len(found) == 1, [f.title for f in found]
    return found[0]


# --- stopped in the middle -----------------------------------------------------------------------------------------


@each("active", [False, True])
@each("halted", [[5], [0], [4, 6], [2, 3]])
def test_ranks_on_which_a_call_has_not_ended_that_ended_on_the_others(halted: list[int], active: bool) -> None:
    finding = only(findings(records(trained(halted), active=active), world_size=8))
    assert finding.code == "collective_unfinished"
    assert finding.who == [f"rank {rank}" for rank in halted]
    assert finding.confidence == "high"
    assert "all_reduce #6 of group dp" in finding.title
    assert any("under way on" in line and "where #" in line for line in finding.evidence)


def test_calls_that_the_halted_rank_did_not_come_to_any_more_are_evidence() -> None:
    """Its program waits for its GPU, so it issues nothing more; the others go on until they need it."""
    made = trained([5])
    for rank in RANKS:
        if rank != 5:
            made[rank].call("barrier", done=False)
    finding = only(findings(records(made), world_size=8))
    assert (finding.code, finding.who) == ("collective_unfinished", ["rank 5"])
    assert "ranks 0-4, 6, 7 (7): in 1 call that rank 5 did not come to any more" in finding.evidence


def test_where_most_have_not_ended_it_they_are_named_with_little_confidence() -> None:
    made = [Recorder("nccl", {"0": ("default_pg", range(4))}).call("all_reduce", times=5) for _ in range(4)]
    for rank, recorder in enumerate(made):
        recorder.call("all_reduce", done=rank == 3)
    finding = only(findings(records(made), world_size=4))
    assert (finding.who, finding.confidence) == (["rank 0", "rank 1", "rank 2"], "low")


def test_two_gpus_that_stopped_at_different_times() -> None:
    made = [Recorder("nccl", {"0": ("default_pg", range(6))}).call("all_reduce", times=5) for _ in range(6)]
    for rank, recorder in enumerate(made):
        recorder.call("all_reduce", times=2, done=rank != 1).call("all_reduce", times=2, done=rank not in (1, 4))
        recorder.call("all_reduce", done=False)
    finding = only(findings(records(made), world_size=6))
    assert finding.who == ["rank 1", "rank 4"]
    assert [line.partition(" on ")[0] for line in finding.evidence] == [
        "all_reduce #6 of the default group: under way",
        "all_reduce #8 of the default group: under way",
    ]


def test_one_group_alone_is_less_sure_than_two() -> None:
    made = [Recorder("nccl", {"0": ("default_pg", range(4))}).call("all_reduce", times=5) for _ in range(4)]
    for rank, recorder in enumerate(made):
        recorder.call("all_reduce", done=rank != 1).call("all_reduce", done=False)
    assert only(findings(records(made), world_size=4)).confidence == "medium"


# --- not stopped in the middle -------------------------------------------------------------------------------------


def test_all_wait_alike() -> None:
    assert findings(records(trained(ahead=6)), world_size=8) == []


@each("op", ["broadcast", "scatter", "all_to_all", "gather", "reduce"])
def test_a_call_that_may_end_on_one_rank_before_another_has_begun_accuses_nobody(op: str) -> None:
    made = [Recorder("nccl", {"0": ("default_pg", range(4))}).call("all_reduce", times=5) for _ in range(4)]
    for rank, recorder in enumerate(made):
        recorder.call(op, done=rank == 0)
    assert findings(records(made), world_size=4) == []


def test_an_all_to_all_of_ranks_that_are_accused_by_more_is_evidence() -> None:
    made = [Recorder("nccl", {"0": ("default_pg", range(4)), "1": ("ep", range(4))}) for _ in range(4)]
    for rank, recorder in enumerate(made):
        recorder.call("all_reduce", times=3)
        recorder.call("all_to_all", "1", done=rank != 2).call("all_reduce", done=rank != 2).call(
            "all_reduce", done=False
        )
    finding = only(findings(records(made), world_size=4))
    assert finding.who == ["rank 2"]
    assert [line.split()[0] for line in finding.evidence] == ["all_reduce", "all_to_all"]


def test_in_a_job_that_may_be_getting_on_only_long_waits_count() -> None:
    moving, standing = records(trained([5]), waited_s=0.1), records(trained([5]))
    assert findings(moving, world_size=8, patient=True) == []
    assert only(findings(standing, world_size=8, patient=True)).who == ["rank 5"]


# --- dumps that hold little ----------------------------------------------------------------------------------------


def test_a_dump_without_calls_that_are_under_way_tells_by_its_counts_who_has_not_come() -> None:
    """The GIL was held on ranks 2 and 5: all that they had issued has ended, and the others' later calls have not."""
    made = [Recorder("nccl", {n: g for n, g in GROUPS.items() if rank in g[1]}) for rank in RANKS]
    for rank, recorder in enumerate(made):
        step(recorder, rank, times=5)
        if rank not in (2, 5):
            step(recorder, rank, times=2, done=False)
    found = findings(records(made, active=True), world_size=8)
    assert {f.code for f in found} == {"collective_not_issued"}
    assert sorted(f.who[0] for f in found) == ["rank 2", "rank 5"]
    assert all(any("came as far as #" in line for line in f.evidence) for f in found)


def test_what_some_of_the_late_ranks_hold_up_is_one_matter_with_what_all_of_them_do() -> None:
    groups: dict[str, tuple[str, Sequence[int]]] = {
        "0": ("default_pg", range(4)),
        "1": ("tp", [0, 1]),
        "2": ("tp", [2, 3]),
    }
    made = [Recorder("nccl", {n: g for n, g in groups.items() if rank in g[1]}) for rank in range(4)]
    for rank, recorder in enumerate(made):
        pair = "1" if rank < 2 else "2"
        recorder.call("all_reduce", times=3).call("all_gather", pair, times=3)
        if rank in (0, 2):
            recorder.call("all_gather", pair, done=False).call("all_reduce", done=False)
    finding = only(findings(records(made), world_size=4))
    assert finding.who == ["rank 1", "rank 3"]
    assert "all_reduce #4 of the default group" in finding.title
    assert any("all_gather #4" in line for line in finding.evidence)
    assert any(line.startswith("See what ranks 1, 3 do:") for line in finding.next_steps)


def test_where_nobody_is_missing_who_waits_in_what_is_said() -> None:
    seen = records(trained(ahead=6))
    finding = only(unexplained(seen, world_size=8))
    assert (finding.code, finding.who, finding.severity, finding.confidence) == (
        "hang_unexplained",
        [],
        "warning",
        "low",
    )
    assert "ranks 0-6, every 2nd wait in all_reduce #6" in finding.title.replace("Ranks", "ranks")
    assert "and nobody is missing in it" in finding.title
    assert unexplained(records([Recorder("nccl", GROUPS).call("all_reduce")]), world_size=1) == []


def test_where_it_is_not_known_who_has_issued_the_call_that_is_said() -> None:
    made = [Recorder("nccl", {"0": ("default_pg", range(2))}) for _ in range(2)]
    made[0].call("all_reduce", times=9).call("barrier", done=False)
    made[1].call("all_reduce", times=9).call("all_gather", "9", times=9)
    newest = made[0].entries[-1]["time_created_ns"] / 1e9
    seen = [
        rank_collectives(i, 0, {**flight.summary([r.dump(last=3)]), "now_s": newest}, source="dump")
        for i, r in enumerate(made)
    ]
    assert findings(seen, world_size=2) == []
    finding = only(unexplained(seen, world_size=2))
    assert "Rank 0 waits in barrier #10 of the default group" in finding.title
    assert "whether rank 1 issued it is not on record" in finding.title


def test_a_chain_of_waits_that_ends_nowhere_is_told_as_it_is() -> None:
    """Rank 1 has not come to what rank 0 waits in: it waits for rank 2, whose record says nothing of that group."""
    groups: dict[str, tuple[str, Sequence[int]]] = {"1": ("tp", [0, 1]), "2": ("dp", [1, 2])}
    made = [Recorder("nccl", {n: g for n, g in groups.items() if rank in g[1]}) for rank in range(3)]
    made[0].call("all_gather", "1", times=3).call("all_gather", "1", done=False)
    made[1].call("all_gather", "1", times=3).call("all_reduce", "2", done=False)
    made[2].call("all_reduce", "9", times=9)
    newest = made[2].entries[-1]["time_created_ns"] / 1e9
    summaries = [flight.summary([r.dump(last=3 if i == 2 else None)]) for i, r in enumerate(made)]
    seen = [rank_collectives(i, 0, {**s, "now_s": newest}, source="dump") for i, s in enumerate(summaries)]
    assert findings(seen, world_size=3) == []
    titles = {f.title for f in unexplained(seen, world_size=3)}
    assert any("Rank 0 waits in all_gather #4 of group tp (1) of ranks 0, 1" in t for t in titles), titles
    assert any("; not in it, but waiting elsewhere: rank 1" in t for t in titles), titles


SHUFFLES: list[Callable[[list[RankCollectives]], list[RankCollectives]]] = [
    lambda seen: seen[::-1],
    lambda seen: seen[3:] + seen[:3],
]


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_the_order_of_the_files_does_not_matter(
    shuffle: Callable[[list[RankCollectives]], list[RankCollectives]],
) -> None:
    seen = records(trained([4, 6]))
    said = [(f.title, f.who) for f in findings(shuffle(seen), world_size=8)]
    assert said == [(f.title, f.who) for f in findings(seen, world_size=8)]
