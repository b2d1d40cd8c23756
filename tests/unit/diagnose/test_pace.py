"""Uneven work and unequal numbers of steps, from hand-made evidence: when ranks arrive, and where they stand."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import many_ranks
import pytest
from cases import each
from pace_evidence import BATCHES, BEHIND, EPOCHS, FILE, IN_EPOCH, standing, times, waits

from jupyter_traindbg.diagnose.hang import case, pace, unequal
from jupyter_traindbg.model import (
    Activity,
    Block,
    Collective,
    Frame,
    Group,
    JobEvidence,
    Look,
    NotAvailable,
    Pace,
    Past,
    ProcessStacks,
    RankCollectives,
    RankEvidence,
    Thread,
    ThreadActivity,
    Wait,
)

ON_RANK_0 = Block("if", 26, 27, "dist.get_rank() == 0")


# --- arrivals ------------------------------------------------------------------------------------------------------


def test_the_slow_rank_is_named_with_its_ratio() -> None:
    seen = pace.arrivals(times(lambda rank, _: 0.030 if rank == 2 else 0.010))
    assert seen is not None
    assert seen.slowest == 2
    assert seen.ratio == pytest.approx(3.0, rel=0.1)
    assert seen.lost == pytest.approx(0.02 / 0.031, rel=0.1)
    assert seen.blame == 1.0


def test_buckets_that_do_not_wait_for_each_other_count_as_work() -> None:
    """Two calls a step, the second issued at once: only the first of a step meets the last of the step before."""
    issued: dict[int, dict[int, float]] = {0: {}, 1: {}}
    met = 0.0
    for step in range(40):
        for rank, work in ((0, 0.010), (1, 0.020)):
            issued[rank][2 * step] = met + work
            issued[rank][2 * step + 1] = met + work * 1.2
        met = max(of[2 * step + 1] for of in issued.values())
    seen = pace.arrivals(issued)
    assert seen is not None
    assert seen.slowest == 1
    assert seen.ratio == pytest.approx(2.0, rel=0.05)


@each("seed", range(5))
def test_noise_that_hits_everybody_alike_accuses_nobody(seed: int) -> None:
    dice = random.Random(seed)
    noisy = times(lambda rank, _: dice.choice([0.010, 0.011, 0.012, 0.060]), rounds=100)
    assert pace.rule(job(collectives(noisy))) == []


@pytest.mark.parametrize("pauses", [{30}, {10, 11}, {3, 50}])
def test_a_long_pause_now_and_then_is_no_habit(pauses: set[int]) -> None:
    evaluates = times(lambda rank, n: 4.0 if rank == 1 and n in pauses else 0.010)
    assert pace.rule(job(collectives(evaluates))) == []


def test_of_many_ranks_the_slow_one_is_found() -> None:
    seen = pace.arrivals(many_ranks.issued(1_000, odd=711))
    assert seen is not None
    assert seen.slowest == 711


def test_too_few_calls_say_nothing() -> None:
    assert pace.arrivals(times(lambda rank, _: 0.01 * (rank + 1), rounds=3)) is None
    assert pace.arrivals({0: {1: 0.0}}) is None
    assert pace.arrivals({}) is None


# --- the verdict on pace -------------------------------------------------------------------------------------------


def collectives(issued: Mapping[int, Mapping[int, float]]) -> list[RankCollectives]:
    ranks = tuple(issued)
    group = Group("0", "default_pg", "gloo", ranks, max(issued[0]), max(issued[0]))
    return [
        RankCollectives(
            rank,
            100 + rank,
            "agent",
            (group,),
            tuple(Collective("0", n, "all_reduce", state="completed", issued_s=t) for n, t in of.items()),
        )
        for rank, of in issued.items()
    ]


def job(
    recorded: Sequence[RankCollectives], parts: Mapping[int, Mapping[str, float]] | None = None, **more: Any
) -> case.Case:
    """A job that makes steps; the stack of each rank is in ``tokenise``."""
    thread = Thread("MainThread", 1, "running", (Frame(FILE, 50, "tokenise"), Frame(FILE, 24, "main")), training=True)
    ranks = [
        RankEvidence(
            of.rank,
            len(recorded),
            of.rank,
            of.pid,
            more.get("host", "here") if of.rank == 0 else "here",
            looks=(Look(0.0, (ProcessStacks(of.rank, of.pid, "rank", "agent", (thread,)),)),),
            pace=Pace(60, 60, 0.01, 0.03, steps_in_window=more.get("steps", 30), parts=(parts or {}).get(of.rank, {})),
            collectives=of,
            **more.get("doing", {}).get(of.rank, {}),
        )
        for of in recorded
    ]
    clock = {"clock_error_s": more["clock_error_s"]} if "clock_error_s" in more else {}
    return case.build(JobEvidence("torchrun:1", ranks, len(recorded), **clock))


def test_a_straggler_is_found_and_told_where_it_loses_its_time() -> None:
    issued = times(lambda rank, _: 0.030 if rank == 2 else 0.010)
    parts = {
        rank: {"data_wait": 0.021 if rank == 2 else 0.001, "forward": 0.009, "backward": 0.001} for rank in range(4)
    }
    (hit,) = pace.rule(job(collectives(issued), parts))
    finding = hit.finding
    assert (finding.code, finding.severity, finding.confidence) == ("straggler", "warning", "high")
    assert (list(hit.ranks), finding.who) == ([2], ("rank 2",))
    assert finding.title == "Rank 2 takes 2.8 times as long as the others, which wait for it 65% of the time"
    assert finding.where == f"{FILE}:50 tokenise"
    assert "the difference lies in waiting for data: 21 ms a step, the others 1 ms" in finding.evidence
    assert any("num_workers" in step for step in finding.next_steps)


def test_a_straggler_in_a_step_of_unknown_parts() -> None:
    (hit,) = pace.rule(job(collectives(times(lambda rank, _: 0.030 if rank == 1 else 0.010, ranks=2))))
    assert (list(hit.ranks), hit.finding.confidence) == ([1], "medium")


@pytest.mark.parametrize(
    ("cpu", "starved", "accused"),
    [
        (0.3, 0.6, False),  # as much work as the others, and no CPU to do it on
        (0.9, 0.6, True),  # three times the work
        (0.3, 0.1, True),  # it sleeps, on a disk perhaps
        (0.3, NotAvailable("this kernel does not count it"), True),
    ],
)
def test_a_rank_that_others_keep_from_the_cpus_is_no_straggler(
    cpu: float, starved: float | NotAvailable, accused: bool
) -> None:
    issued = times(lambda rank, _: 0.030 if rank == 2 else 0.010)
    doing = {rank: used(rank, cpu if rank == 2 else 0.3, starved if rank == 2 else 0.05) for rank in range(4)}
    assert bool(pace.rule(job(collectives(issued), doing=doing))) is accused


def used(rank: int, cpu: float, starved: float | NotAvailable) -> dict[str, Any]:
    """The CPU use of a rank whose loading worker does half of its work."""
    halves = [starved if isinstance(starved, NotAvailable) else starved / 2] * 2
    both = [
        Activity(
            pid,
            "rank",
            "python",
            1.5,
            "S",
            cpu / 2,
            (ThreadActivity(pid, "python", "S", cpu / 2, 90, starved_share=of),),
        )
        for pid, of in zip((100 + rank, 200 + rank), halves, strict=True)
    ]
    return {"activity": both[0], "children": both[1:]}


@pytest.mark.parametrize("rounds", [4, 8, 14])
def test_of_a_few_rounds_a_rank_that_is_late_in_all_of_them_is_named(rounds: int) -> None:
    late = times(lambda rank, n: 0.8 + 0.01 * (n % 3) if rank == 2 else 0.02, rounds=rounds)
    (hit,) = pace.rule(job(collectives(late)))
    assert list(hit.ranks) == [2]
    assert any(line.endswith("times as fast") for line in hit.finding.evidence)


@pytest.mark.parametrize(
    "work",
    [
        lambda rank, n: 4.0 if rank == 2 and n == 3 else 0.02,  # one long pause
        lambda rank, n: 0.03 if rank == 2 else 0.02,  # a little more to do
        lambda rank, n: 0.8 if rank == n % 4 else 0.02,  # each in turn
    ],
)
def test_a_few_rounds_accuse_nobody_of_less(work: Callable[[int, int], float]) -> None:
    assert pace.rule(job(collectives(times(work, rounds=8)))) == []


def test_an_even_job_has_no_straggler() -> None:
    assert pace.rule(job(collectives(times(lambda rank, _: 0.010 + 0.002 * rank)))) == []


def test_clocks_of_two_hosts_are_compared_only_where_it_is_known_how_far_they_are_apart() -> None:
    issued = times(lambda rank, _: 0.030 if rank == 2 else 0.010)
    assert pace.rule(job(collectives(issued), host="there")) == []
    assert pace.rule(job(collectives(issued), host="there", clock_error_s=0.020)) == [], "that may be all of it"
    (hit,) = pace.rule(job(collectives(issued), host="there", clock_error_s=0.001))
    assert hit.ranks == [2]


def test_a_job_that_stands_still_has_no_straggler() -> None:
    issued = times(lambda rank, _: 0.030 if rank == 2 else 0.010)
    still = job(collectives(issued), steps=0)
    assert pace.rule(still) == [] or not still.overdue


# --- unequal steps -------------------------------------------------------------------------------------------------


def unequal_hits(*ranks: RankEvidence, blocks: Sequence[Block] = (EPOCHS, BATCHES)) -> list[case.Hit]:
    return unequal.rule(case.build(JobEvidence("torchrun:1", ranks, len(ranks), blocks={FILE: blocks})))


def test_a_rank_behind_the_loop_has_made_fewer_steps() -> None:
    (hit,) = unequal_hits(*(standing(n, BEHIND if n == 1 else IN_EPOCH) for n in range(4)))
    finding = hit.finding
    assert (finding.code, finding.confidence, list(hit.ranks)) == ("unequal_steps", "high", [1])
    assert finding.title == "Rank 1 made fewer steps: it has left the loop that ranks 0, 2, 3 are still in"
    assert finding.where == f"{FILE}:33 main"
    assert "the loop: `for batch in loader` (train.py:22)" in finding.evidence
    assert "ranks 0, 2, 3: still in it, at train.py:60 train_step" in finding.evidence
    assert "rank 1: past it, at train.py:33 main" in finding.evidence


def test_one_rank_in_the_loop_has_made_more_steps() -> None:
    (hit,) = unequal_hits(*(standing(n, IN_EPOCH if n == 1 else BEHIND) for n in range(4)))
    assert list(hit.ranks) == [1]
    assert hit.finding.title.startswith("Rank 1 made more steps")


@pytest.mark.parametrize("left_out", [True, False])
def test_who_has_left_out_a_call_in_this_round_has_made_no_step_more(left_out: bool) -> None:
    """Rank 1 is in a loop behind the line at which the others are, in the same round or in one before theirs."""
    loops = (Block("for", 20, 40, "batch in loader"), Block("for", 32, 34, "callback in callbacks"))
    others, odd = waits("all_reduce", (30, "main")), waits("all_gather", (33, "main"))
    kinds = ["all_reduce", "all_gather"] * 3 + (["all_gather"] if left_out else ["all_reduce", "all_gather"])
    calls = [Collective("0", n, op, state="completed") for n, op in enumerate(kinds, 1)]
    calls[-1] = replace(calls[-1], state="issued")
    recorded = RankCollectives(1, 101, "agent", (), tuple(calls), waiting_s=60.0)
    theirs = replace(recorded, calls=(Collective("0", 7, "all_reduce"),))
    ranks = [replace(standing(n, others), collectives=theirs) for n in range(4)]
    ranks[1] = replace(standing(1, odd), collectives=recorded)
    past = Past((1,), (0, 2, 3), Frame(FILE, 33, "main"), Frame(FILE, 30, "main"), True, ())
    evidence = JobEvidence("torchrun:1", ranks, 4, blocks={FILE: loops}, past=(past,))
    assert bool(unequal.rule(case.build(evidence))) is not left_out


def test_a_loop_in_a_function_of_its_own() -> None:
    epoch = waits("all_reduce", (8, "train_epoch"), (24, "main"))
    validating = waits("all_gather", (15, "validate"), (31, "main"))
    blocks = (Block("for", 7, 9, "batch in loader"), EPOCHS)
    (hit,) = unequal_hits(*(standing(n, validating if n == 3 else epoch) for n in range(4)), blocks=blocks)
    assert list(hit.ranks) == [3]
    assert hit.finding.where == f"{FILE}:15 validate"


@pytest.mark.parametrize(("operation", "fewer"), [("all_reduce", True), ("barrier", False)])
def test_a_call_that_nobody_made_before_is_no_step(operation: str, fewer: bool) -> None:
    """Rank 0 makes it in the loop; rank 1 is at the beginning of the next round already, as in a trainer whose inner loop accumulates."""
    ranks = []
    for n, (frames, last) in enumerate(((IN_EPOCH, operation), (BEHIND, "all_gather"))):
        before = [Collective("0", i, op, state="completed") for i, op in enumerate(["all_gather", "all_reduce"] * 3, 1)]
        calls = (*before, Collective("0", 7, last))
        recorded = RankCollectives(n, 100 + n, "agent", (), calls, waiting_s=60.0)
        ranks.append(replace(standing(n, frames), collectives=recorded))
    assert bool(unequal_hits(*ranks)) is fewer


def waiting_in(n: int, frames: Sequence[Frame], group: str, members: Sequence[int], ops: Sequence[str]) -> RankEvidence:
    """A rank at `frames` whose last call, on `group`, is the last of `ops`; those before it are done."""
    calls = tuple(Collective(group, i, op, state="completed") for i, op in enumerate(ops, 1))
    calls = (*calls[:-1], replace(calls[-1], state="issued"))
    groups = (Group(group, "", "gloo", tuple(members), len(ops), len(ops) - 1),)
    return replace(standing(n, frames), collectives=RankCollectives(n, 100 + n, "agent", groups, calls, waiting_s=60.0))


def test_who_is_past_a_loop_and_waits_for_others_that_are_past_it_is_further_within_the_step() -> None:
    """Two by two ranks: 0 waits for 1 in their tensor group, and the loop over the parameters is one that every step has."""
    ops = ["all_reduce"] * 7
    here = [waiting_in(n, IN_EPOCH, "dp", (n - 2, n), ops) for n in (2, 3)]
    assert unequal_hits(*(waiting_in(n, BEHIND, "tp", (0, 1), ops) for n in (0, 1)), *here) == []
    assert unequal_hits(*(waiting_in(n, BEHIND, "all", range(4), ["barrier"]) for n in (0, 1)), *here) != []


def test_a_loop_to_which_only_one_rank_has_ever_come_is_none_of_the_step() -> None:
    """Rank 1 evaluates: its gather is new at this place, and what the others wait in always came there."""
    step = ["all_gather", "all_reduce", "all_reduce"]
    everybody = range(4)
    usual = [*step * 4, "all_gather", "all_reduce"]
    evaluating = [*step * 4, "all_gather", "all_gather"]
    training, validation = waits("all_reduce", (21, "main")), waits("all_gather", (51, "evaluate"), (35, "main"))
    others = [waiting_in(n, training, "0", everybody, usual) for n in (0, 2, 3)]
    blocks = (EPOCHS, Block("for", 50, 52, "batch in validation"))
    assert unequal_hits(*others, waiting_in(1, validation, "0", everybody, evaluating), blocks=blocks) == []
    assert unequal_hits(*others, waiting_in(1, validation, "0", everybody, usual), blocks=blocks) != []


def test_the_loops_of_a_model_are_parts_of_a_step() -> None:
    module = Frame(
        "/opt/lib/python3.11/site-packages/torch/nn/modules/module.py", 1789, "Module._call_impl", library=True
    )
    layers = (*waits("all_gather", (72, "forward")), module, Frame(FILE, 24, "main"))
    blocks = (EPOCHS, Block("for", 70, 73, "layer in self.layers"))
    others = [standing(n, waits("all_reduce", (25, "main"))) for n in (0, 2, 3)]
    assert unequal_hits(*others, standing(1, layers), blocks=blocks) == []


def test_of_two_ranks_it_is_not_sure() -> None:
    (hit,) = unequal_hits(standing(0, IN_EPOCH), standing(1, BEHIND))
    assert (list(hit.ranks), hit.finding.confidence) == ([1], "medium")


@each(
    ("elsewhere", "blocks"),
    [
        (waits("all_gather", (27, "main")), (EPOCHS, BATCHES)),  # in the same loop: a call that only one makes
        (waits("barrier", (33, "main")), ()),  # no source to judge by
        (waits("barrier", (10, "main")), (BATCHES,)),  # it has not come to the loop yet
        (waits("all_gather", (35, "main")), (EPOCHS, BATCHES, Block("if", 34, 36, "rank == 0"))),  # work of one rank
        (waits("all_gather", (36, "main")), (EPOCHS, BATCHES, Block("for", 35, 37, "batch in test"))),  # another loop
    ],
)
def test_another_place_alone_does_not_mean_fewer_steps(elsewhere: Sequence[Frame], blocks: Sequence[Block]) -> None:
    ranks = [standing(n, elsewhere if n == 1 else IN_EPOCH) for n in range(4)]
    assert unequal_hits(*ranks, blocks=blocks) == []


def test_the_optimizers_own_counts_tell_where_the_source_does_not() -> None:
    ranks = [standing(n, IN_EPOCH, steps=7 if n == 2 else 9) for n in range(4)]
    (hit,) = unequal_hits(*ranks)
    assert list(hit.ranks) == [2]
    assert hit.finding.title == "Rank 2 made 7 optimizer steps, the others 9"
    assert unequal_hits(*(standing(n, IN_EPOCH, steps=9) for n in range(4))) == []
    one_behind = (standing(n, IN_EPOCH, steps=8 if n == 2 else 9) for n in range(4))
    assert unequal_hits(*one_behind) == [], "it has not come to the end of the step that the others have ended"


def test_where_one_rank_is_waited_for_it_is_not_the_steps() -> None:
    loading = (Frame(FILE, 70, "load"), Frame(FILE, 23, "main"))
    ranks = [
        standing(0, BEHIND),
        standing(1, IN_EPOCH),
        standing(2, loading, words=Wait("sleep")),
        standing(3, IN_EPOCH),
    ]
    assert unequal_hits(*ranks) == []


def test_of_many_ranks_the_one_that_is_behind_is_found() -> None:
    (hit,) = unequal.rule(case.build(many_ranks.unequal(1_000, odd=711)))
    assert list(hit.ranks) == [711]


def test_the_verdicts_speak_chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINDBG_LANG", "zh")
    (slow,) = pace.rule(job(collectives(times(lambda rank, _: 0.030 if rank == 2 else 0.010))))
    (fewer,) = unequal_hits(*(standing(n, BEHIND if n == 1 else IN_EPOCH) for n in range(4)))
    assert "倍" in slow.finding.title
    assert "步数更少" in fewer.finding.title
