"""Who holds up whom, from recorders alone: each scene is the record of a job that hangs in one way, as NCCL or gloo leave it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import many_ranks
import pytest
from flight_dumps import BEGAN_NS, Recorder

from jupyter_traindbg.agent import flight
from jupyter_traindbg.diagnose.collectives import findings, habit, settles_in_s
from jupyter_traindbg.model import Finding, RankCollectives
from jupyter_traindbg.outside.flightrec.build import rank_collectives

DEFAULT = {"0": ("default_pg", range(4))}
LATER_S = 30.0


def recorders(
    n: int, library: str = "nccl", groups: Mapping[str, tuple[str, Sequence[int]]] = DEFAULT
) -> list[Recorder]:
    """Every rank has done five steps: an all_reduce of gradients and one of the loss."""
    mine = {r: {g: v for g, v in groups.items() if r in v[1]} for r in range(n)}
    made = [Recorder(library, mine[r]) for r in range(n)]
    for recorder in made:
        for _ in range(5):
            recorder.call("all_reduce", input_sizes=[[1000]]).call("all_reduce", input_sizes=[[1]])
    return made


def ranks_of(
    made: Sequence[Recorder], *, last: int | None = None, waited_s: float = LATER_S, skip: Sequence[int] = ()
) -> list[RankCollectives]:
    """As they stand `waited_s` after their last call."""
    newest = max(e["time_created_ns"] for r in made for e in r.entries) / 1e9
    found = []
    for rank, recorder in enumerate(made):
        summary = flight.summary([recorder.dump(last=last)], place=lambda frames: frames)
        if rank not in skip:
            found.append(rank_collectives(rank, 0, {**summary, "now_s": newest + waited_s}, source="dump"))
    return found


def only(found: Sequence[Finding]) -> Finding:
    assert len(found) == 1, [f.title for f in found]
    return found[0]


# --- a call that a rank never issued -------------------------------------------------------------------------------


@pytest.mark.parametrize("library", ["nccl", "gloo"])
@pytest.mark.parametrize("n", [2, 4])
def test_a_rank_that_has_not_issued_the_call(library: str, n: int) -> None:
    made = recorders(n, library, {"0": ("default_pg", range(n))})
    for rank in (r for r in range(n) if r != 1):
        made[rank].call("all_reduce", done=False)
    finding = only(findings(ranks_of(made), world_size=n, where={1: "/a/data.py:7 load", 0: "/a/train.py:9 step"}))
    assert finding.code == "collective_not_issued"
    assert finding.who == ["rank 1"]
    assert finding.where == "/a/data.py:7 load"
    assert finding.confidence == "high"
    assert "all_reduce #11" in finding.title
    assert "the default group" in finding.title
    assert "30 s" in finding.title
    assert any("issued all_reduce #10 last, and is at data.py:7 load now" in line for line in finding.evidence)
    assert any("train.py:9 step" in line and "[1000] float32" in line for line in finding.evidence)


def test_ranks_that_run_ahead_wait_in_the_first_call_that_cannot_end() -> None:
    """NCCL calls return at once: the others have queued 15 more."""
    made = recorders(4)
    for rank in (0, 1, 2):
        made[rank].call("all_reduce", times=15, done=False)
    finding = only(findings(ranks_of(made), world_size=4))
    assert finding.who == ["rank 3"]
    assert "all_reduce #11" in finding.title


def test_the_root_is_named_and_not_those_who_wait_for_it_in_turn() -> None:
    """Tensor parallel pairs 0,1 and 2,3; data parallel pairs 0,2 and 1,3. Rank 3 is stuck; 2 waits for it, 0 for 2, 1 for 0 and 3."""
    groups = {
        "0": ("default_pg", range(4)),
        "1": ("tp", [0, 1]),
        "2": ("tp", [2, 3]),
        "3": ("dp", [0, 2]),
        "4": ("dp", [1, 3]),
    }
    made = recorders(4, "nccl", groups)
    made[2].call("all_gather", "2", done=False)
    made[0].call("all_reduce", "3", done=False)
    made[1].call("all_gather", "1", done=False)
    finding = only(findings(ranks_of(made), world_size=4))
    assert finding.who == ["rank 3"]
    assert "tp (2)" in finding.title
    assert any(line.startswith("in turn, rank 0 waits in") and "for rank 2" in line for line in finding.evidence)


def test_two_roots_are_two_findings_the_one_that_holds_up_more_first() -> None:
    groups = {"1": ("tp", [0, 1, 2]), "2": ("tp", [3, 4])}
    made = recorders(5, "nccl", groups)
    for rank in (0, 1):
        made[rank].call("all_gather", "1", done=False)
    made[3].call("all_gather", "2", done=False)
    assert [f.who for f in findings(ranks_of(made), world_size=5)] == [["rank 2"], ["rank 4"]]


def test_a_rank_without_a_record_is_suspected_where_all_others_wait() -> None:
    made = recorders(4)
    for recorder in made:
        recorder.call("all_reduce", done=False)
    finding = only(findings(ranks_of(made, skip=[2]), world_size=4, missing=[2]))
    assert finding.code == "collective_not_issued"
    assert finding.who == ["rank 2"]
    assert finding.confidence == "medium"
    assert finding.title.startswith("There is no record of rank 2, for which")


def test_a_rank_without_a_record_is_not_blamed_for_one_that_has_not_come() -> None:
    made = recorders(4)
    made[0].call("all_reduce", done=False)
    made[1].call("all_reduce", done=False)
    finding = only(findings(ranks_of(made, skip=[2]), world_size=4, missing=[2]))
    assert finding.who == ["rank 3"]
    assert finding.confidence == "medium"


def test_a_wrapped_ring_claims_nothing_of_what_it_has_forgotten() -> None:
    groups = {**DEFAULT, "1": ("tp", range(4))}
    made = recorders(4, "gloo", groups)
    for recorder in made:
        recorder.call("all_gather", "1", times=20)
    made[0].call("all_gather", "1", done=False)
    finding = only(findings(ranks_of(made, last=8), world_size=4))
    assert finding.who == ["rank 1", "rank 2", "rank 3"]
    assert "all_gather #21" in finding.title


def test_where_calls_look_alike_their_places_tell_the_one_that_was_skipped() -> None:
    made = [Recorder("nccl", {"0": ("default_pg", range(3))}) for _ in range(3)]
    for step in range(6):
        for rank, recorder in enumerate(made):
            recorder.call("all_reduce", frames="/a/train.py:10 step")
            if not (rank == 1 and step == 3):
                recorder.call("all_reduce", frames="/a/train.py:12 log")
    for rank in (0, 2):
        made[rank].entries[-1].update(state="scheduled", retired=False)
    finding = only(findings(ranks_of(made), world_size=3))
    assert finding.who == ["rank 1"]
    assert any(
        "from #8 on" in line and "train.py:10 step" in line and "train.py:12 log" in line for line in finding.evidence
    )


def test_who_waits_in_a_group_whose_ranks_nobody_tells_is_evidence() -> None:
    """gloo's dumps do not say who is in a group, and rank 2 has never used this one."""
    made = recorders(4, "gloo", {"0": ("default_pg", range(4))})
    made[3].call("all_reduce", "9", done=False)
    for rank in (0, 1):
        made[rank].call("barrier", done=False)
    finding = only(findings(ranks_of(made), world_size=4))
    assert finding.who == ["rank 2"]
    assert any(line.startswith("in turn, rank 3 waits in all_reduce #1 of group 9") for line in finding.evidence)


def test_a_live_rank_that_has_closed_its_group_ran_fewer_steps() -> None:
    made = recorders(2, "gloo", {"0": ("default_pg", range(2))})
    made[0].call("all_reduce", done=False)
    there = rank_collectives(
        0,
        1,
        {**flight.summary([made[0].dump()], [flight.Known("0", "default_pg", "gloo", [0, 1], 11)])},
        source="agent",
    )
    gone = rank_collectives(1, 2, flight.summary([]), source="agent")
    finding = only(findings([there, gone], world_size=2))
    assert finding.code == "unequal_steps"
    assert finding.who == ["rank 1"]


def test_a_live_rank_that_has_the_default_group_may_never_have_made_the_other() -> None:
    made = recorders(2, "gloo", {"0": ("default_pg", range(2)), "1": ("mesh_dp", range(2))})
    made[0].call("all_gather", "1", done=False)
    waits, default = made[0].dump(), flight.Known("0", "default_pg", "gloo", [0, 1], 10)
    both = [default, flight.Known("1", "mesh_dp", "gloo", [0, 1], 1)]
    records = [
        rank_collectives(0, 1, flight.summary([waits], both), source="agent"),
        rank_collectives(1, 2, flight.summary([made[1].dump()], [default]), source="agent"),
    ]
    finding = only(findings(records, world_size=2))
    assert (finding.code, finding.who) == ("collective_not_issued", ["rank 1"])


# --- different calls under one number ------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 4])
def test_a_call_on_rank_0_only(n: int) -> None:
    """Between two ranks, what the program did before tells which call is the odd one."""
    made = recorders(n, "nccl", {"0": ("default_pg", range(n))})
    made[0].call("broadcast", done=False, frames="/a/train.py:20 log")
    for recorder in made:
        recorder.call("all_reduce", done=False, frames="/a/train.py:10 step")
    finding = only(findings(ranks_of(made), world_size=n))
    assert finding.code == "collective_mismatch"
    assert finding.who == ["rank 0"]
    assert finding.where == "/a/train.py:20 log"
    assert finding.title.startswith("Rank 0 issued broadcast as #11 of the default group, where rank")
    assert finding.confidence == ("high" if n > 2 else "medium")


def test_a_skipped_call_between_two_ranks() -> None:
    made = [Recorder("gloo", {"0": ("default_pg", range(2))}) for _ in range(2)]
    for recorder in made:
        for _ in range(4):
            recorder.call("all_reduce").call("all_gather")
        recorder.call("all_reduce")
    made[0].call("all_gather", done=False)
    made[1].call("all_reduce", done=False)
    finding = only(findings(ranks_of(made), world_size=2))
    assert finding.code == "collective_mismatch"
    assert finding.who == ["rank 1"]


def test_where_nothing_tells_who_is_odd_both_are_named() -> None:
    made = [Recorder("nccl", {"0": ("default_pg", range(2))}) for _ in range(2)]
    made[0].call("all_reduce", done=False)
    made[1].call("barrier", done=False)
    finding = only(findings(ranks_of(made), world_size=2))
    assert finding.who == ["rank 0", "rank 1"]
    assert finding.confidence == "low"


@pytest.mark.parametrize(
    ("change", "words"),
    [({"input_sizes": [[999]]}, "[999] float32"), ({"input_dtypes": ["Half"]}, "[1000] float16")],
)
def test_a_rank_that_passes_another_size_or_dtype(change: dict[str, Any], words: str) -> None:
    made = recorders(4)
    for rank, recorder in enumerate(made):
        recorder.call("all_reduce", done=False, **(change if rank == 3 else {}))
    finding = only(findings(ranks_of(made), world_size=4))
    assert finding.code == "collective_shape_mismatch"
    assert finding.who == ["rank 3"]
    assert finding.title.startswith(f"Rank 3 passed {words} to all_reduce #11")
    assert "[1000] float32" in finding.title


def test_another_shape_of_the_same_size_works_and_is_none_of_our_business() -> None:
    made = recorders(4)
    for rank, recorder in enumerate(made):
        recorder.call("all_reduce", done=False, input_sizes=[[10, 100]] if rank == 3 else [[1000]])
    assert findings(ranks_of(made), world_size=4) == []


def test_the_root_of_a_gather_or_scatter_passes_more_than_the_others() -> None:
    made = recorders(2, "gloo", {"0": ("default_pg", range(2))})
    made[0].call("gather", input_sizes=[[4]], output_sizes=[[2, 4]], done=False)
    made[1].call("gather", input_sizes=[[4]], output_sizes=[], done=False)
    assert findings(ranks_of(made), world_size=2) == []
    made[0].call("scatter", input_sizes=[[2, 4]], output_sizes=[[4]], done=False)
    made[1].call("scatter", input_sizes=[], input_dtypes=[], output_sizes=[[4]], done=False)
    assert findings(ranks_of(made), world_size=2) == []


def test_an_all_to_all_may_be_uneven_but_has_to_add_up() -> None:
    made = recorders(2, "nccl", {"0": ("default_pg", range(2))})
    made[0].call("all_to_all", input_sizes=[[6]], output_sizes=[[3]], done=False)
    made[1].call("all_to_all", input_sizes=[[2]], output_sizes=[[5]], done=False)
    assert findings(ranks_of(made), world_size=2) == []
    made[1].entries[-1]["output_sizes"] = [[9]]
    finding = only(findings(ranks_of(made), world_size=2))
    assert finding.code == "collective_shape_mismatch"
    assert finding.confidence == "low"


def test_coalesced_calls_share_a_number_and_are_compared_together() -> None:
    made = recorders(3, "nccl", {"0": ("default_pg", range(3))})
    for rank, recorder in enumerate(made):
        recorder.call("all_gather", done=False)
        recorder.call("all_gather" if rank != 1 else "reduce_scatter", new_number=False, done=False)
        recorder.call("coalesced", new_number=False, done=False)
    finding = only(findings(ranks_of(made), world_size=3))
    assert finding.who == ["rank 1"]
    made[1].entries[-2]["profiling_name"] = "nccl:all_gather"
    assert findings(ranks_of(made), world_size=3) == []


def test_a_mismatch_in_the_past_explains_what_waits_now() -> None:
    """With gloo, an operation may end although another rank did something else under its number."""
    made = recorders(3, "gloo", {"0": ("default_pg", range(3))})
    made[2].call("barrier")
    for recorder in made:
        recorder.call("all_reduce", times=2)
    made[0].call("all_reduce", done=False)
    made[1].call("all_reduce", done=False)
    finding = only(findings(ranks_of(made), world_size=3))
    assert finding.code == "collective_mismatch"
    assert finding.who == ["rank 2"]
    assert "#11" in finding.title


# --- circles, sends and receives -----------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 4])
def test_groups_in_different_order(n: int) -> None:
    groups = {"1": ("first", range(n)), "2": ("second", range(n))}
    made = [Recorder("gloo", groups) for _ in range(n)]
    for recorder in made:
        for _ in range(4):
            recorder.call("all_reduce", "1").call("broadcast", "2")
    for rank, recorder in enumerate(made):
        recorder.call("broadcast" if rank == 1 else "all_reduce", "2" if rank == 1 else "1", done=False)
    finding = only(findings(ranks_of(made), world_size=n))
    assert finding.code == "collective_order"
    assert finding.who == ["rank 1"]
    assert "first (1)" in finding.title
    assert "second (2)" in finding.title


def in_a_mesh(skips: int) -> list[Recorder]:
    """Two by two ranks, data and tensor groups, three steps done: one rank leaves its tensor group's second call out and goes on."""
    members = {
        "1": ("dp", (0, 2)),
        "2": ("dp", (1, 3)),
        "3": ("tp", (0, 1)),
        "4": ("tp", (2, 3)),
        "0": ("default_pg", range(4)),
    }
    own = {r: [g for g, (_, ranks) in members.items() if r in ranks] for r in range(4)}
    made = [Recorder("gloo", {g: members[g] for g in own[r]}) for r in range(4)]
    for rank, recorder in enumerate(made):
        for _ in range(3):
            recorder.call("all_reduce", own[rank][1]).call("all_reduce", own[rank][1])
            recorder.call("all_reduce", own[rank][0]).call("all_reduce", "0")
        recorder.call("all_reduce", own[rank][1])
    tensor_peer, data_peer = skips ^ 1, skips ^ 2
    made[skips].call("all_reduce", own[skips][0]).call("all_reduce", "0", done=False)
    made[tensor_peer].call("all_reduce", own[tensor_peer][1], done=False)
    made[data_peer].call("all_reduce", own[data_peer][1]).call("all_reduce", own[data_peer][0]).call(
        "all_reduce", "0", done=False
    )
    other = 3 - skips
    made[other].call("all_reduce", own[other][1]).call("all_reduce", own[other][0], done=False)
    return made


@pytest.mark.parametrize("skips", range(4))
def test_of_ranks_that_wait_in_a_circle_the_one_is_named_that_has_gone_past_a_call(skips: int) -> None:
    finding = only(findings(ranks_of(in_a_mesh(skips)), world_size=4, where={skips: "/a/train.py:9 clip"}))
    assert (finding.code, finding.who, finding.confidence) == ("collective_not_issued", [f"rank {skips}"], "medium")
    assert finding.where == "/a/train.py:9 clip"
    assert f"of group tp ({3 + (skips > 1)})" in finding.title
    assert "the default group" in " ".join(finding.evidence)


def test_without_a_habit_all_of_the_circle_are_named() -> None:
    made = [Recorder("gloo", {"1": ("first", (0, 1)), "2": ("second", (0, 1))}) for _ in range(2)]
    for recorder in made:
        recorder.call("all_reduce", "1").call("all_reduce", "2")
    made[0].call("all_reduce", "1", done=False)
    made[1].call("all_reduce", "2", done=False)
    assert only(findings(ranks_of(made), world_size=2)).who == ["rank 0", "rank 1"]


def test_two_that_send_to_each_other_first() -> None:
    made = recorders(2, "nccl", {"0": ("default_pg", range(2))})
    made[0].call("recv 0<-1", done=False)
    made[1].call("recv 1<-0", done=False)
    finding = only(findings(ranks_of(made), world_size=2))
    assert finding.code == "collective_order"
    assert finding.who == ["rank 0", "rank 1"]
    assert "wait for each other in recv" in finding.title


def test_a_send_that_never_came() -> None:
    made = recorders(3, "nccl", {"0": ("default_pg", range(3))})
    made[0].call("recv 0<-2", done=False)
    finding = only(findings(ranks_of(made), world_size=3))
    assert finding.code == "collective_not_issued"
    assert finding.who == ["rank 2"]
    assert "the send for which rank 0 waits in recv #1 from rank 2" in finding.title


def test_a_send_that_was_left_out_by_one_who_went_on() -> None:
    """A pipeline: rank 0 receives from 1, 1 from 2; rank 2 is in the barrier already, which waits for both."""
    made = recorders(3, "nccl", {"0": ("default_pg", range(3))})
    made[0].call("recv 0<-1", done=False)
    made[1].call("recv 1<-2", done=False)
    made[2].call("barrier", done=False)
    finding = only(findings(ranks_of(made), world_size=3))
    assert finding.code == "collective_not_issued"
    assert finding.who == ["rank 2"]
    assert finding.confidence == "medium"
    assert "the send for which rank 1 waits" in finding.title
    assert any("barrier #11 last" in line for line in finding.evidence)


def test_a_send_and_a_receive_that_do_not_fit() -> None:
    made = recorders(2, "nccl", {"0": ("default_pg", range(2))})
    made[0].call("send 0->1", done=False, input_sizes=[[8]])
    made[1].call("recv 1<-0", done=False, input_sizes=[[4]])
    finding = only(findings(ranks_of(made), world_size=2))
    assert finding.code == "collective_shape_mismatch"
    assert "Rank 0 sends [8] float32 to rank 1, which receives [4] float32" in finding.title
    made[0].entries[-1]["input_sizes"] = [[4]]
    assert findings(ranks_of(made), world_size=2) == []


def test_a_gpu_that_has_not_begun_what_others_wait_in() -> None:
    made = recorders(3, "nccl", {"0": ("default_pg", range(3))})
    for rank, recorder in enumerate(made):
        recorder.call("all_reduce", done=False, state="scheduled" if rank == 1 else "started")
    finding = only(findings(ranks_of(made), world_size=3))
    assert finding.who == ["rank 1"]
    assert "its GPU has not begun it" in finding.title


# --- nothing is wrong ----------------------------------------------------------------------------------------------


def test_nobody_waits() -> None:
    assert findings(ranks_of(recorders(4)), world_size=4) == []
    assert findings([], world_size=0) == []


def test_split_groups_may_share_a_name() -> None:
    """`split_group` gives both halves one name: calls of one half are not missing in the other."""
    made = [Recorder("nccl", {"0:split": ("tp", [0, 1] if rank < 2 else [2, 3])}) for rank in range(4)]
    for rank in (0, 1):
        made[rank].call("all_reduce", "0:split", times=3)
    made[2].call("all_reduce", "0:split")
    made[3].call("all_reduce", "0:split")
    made[0].call("all_gather", "0:split", done=False)
    finding = only(findings(ranks_of(made), world_size=4))
    assert finding.who == ["rank 1"]


def test_patience() -> None:
    """Calls come every 10 ms: who waits for half a second may still be served; who waits for 30 s will not."""
    made = recorders(2, "gloo", {"0": ("default_pg", range(2))})
    made[0].call("all_reduce", done=False)
    quick, stuck = ranks_of(made, waited_s=0.5), ranks_of(made)
    assert findings(quick, world_size=2, patient=True) == []
    assert only(findings(quick, world_size=2)).who == ["rank 1"]
    assert only(findings(stuck, world_size=2, patient=True)).who == ["rank 1"]
    assert settles_in_s(quick, 3.0) == pytest.approx(0.55, abs=0.01)
    assert settles_in_s(quick, 0.3) is None
    assert settles_in_s(stuck, 3.0) is None
    assert settles_in_s(ranks_of(recorders(2)), 3.0) is None


def test_a_job_with_slow_steps_needs_more_patience() -> None:
    made = recorders(2, "gloo", {"0": ("default_pg", range(2))})
    made[0].call("all_reduce", done=False)
    for recorder in made:
        for i, entry in enumerate(recorder.entries):
            entry["time_created_ns"] = BEGAN_NS + i * 8 * 10**9
    assert findings(ranks_of(made, waited_s=12.0), world_size=2, patient=True) == []
    assert only(findings(ranks_of(made, waited_s=60.0), world_size=2, patient=True)).who == ["rank 1"]


def test_groups_that_have_no_name_are_not_compared() -> None:
    made = [Recorder("gloo").call("all_reduce", process_group=("", ""), pg_id=4, done=False) for _ in range(2)]
    made.append(Recorder("gloo").call("all_reduce", process_group=("", ""), pg_id=5))
    assert findings(ranks_of(made), world_size=3) == []


def test_what_usually_follows() -> None:
    assert habit.expected("abcabcab") == "c"
    assert habit.expected("aaaaaaaaab" * 3) == "a"
    assert habit.expected("abacada") is None, "it varied"
    assert habit.expected("abc") is None
    assert habit.expected("") is None


def test_what_was_left_out() -> None:
    assert habit.left_out("abcabcabcac", "b", since=9) == 10, "it was to come after the last a"
    assert habit.left_out("abcabcabcac", "b", since=11) is None
    assert habit.left_out("abcabcabc", "b", since=0) is None
    assert habit.departed("abcabcac")
    assert not habit.departed("abcabcaca"), "the last one follows what came before it"
    assert habit.departed("abcabcaca", 2)
    assert not habit.departed("a")
    assert not habit.departed("abbdgbbddgdd"), "it has followed so before, if not mostly"


def test_of_many_ranks_the_one_is_named() -> None:
    finding = only(findings(many_ranks.collectives(1_000, odd=711), world_size=1_000))
    assert finding.who == ["rank 711"]
    assert len(finding.title) < 300
