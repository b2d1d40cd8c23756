"""How a rank got past a call at which others wait: from hand-made evidence and records."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from cases import each
from flight_dumps import Recorder
from hang_evidence import ALL_REDUCE, BACKWARD, MAIN, TORCH, TRAIN, job, rank, records, stuck, thread, user, waiting
from standing import value

from jupyter_traindbg.agent import flight
from jupyter_traindbg.diagnose.collectives import findings
from jupyter_traindbg.diagnose.hang import passed
from jupyter_traindbg.diagnose.hang.case import build
from jupyter_traindbg.model import (
    CallSite,
    CallSites,
    Collective,
    Detour,
    DetourKind,
    Finding,
    Frame,
    Handled,
    Past,
    RankCollectives,
    RankEvidence,
    Replica,
    Subject,
    Variable,
    Wait,
)
from jupyter_traindbg.outside.flightrec.build import rank_collectives

AT = Frame(TRAIN, 40, "train_step")
NOW = Frame(TRAIN, 44, "train_step")
IF = Frame(TRAIN, 38, "train_step")
OTHERS = (0, 1, 3)


def detour(kind: DetourKind = "condition", words: str = "isfinite(loss)", **more: Any) -> Detour:
    return Detour(kind, IF, words, **more)


def reducing(number: int, **more: Any) -> RankEvidence:
    return rank(number, [thread(BACKWARD, Wait("backward"))], collectives=records(number, waits="all_reduce"), **more)


def finding(code: str = "collective_not_issued", blamed: int = 2) -> Finding:
    return Finding(code, "critical", "it hangs", (Subject("rank", blamed),), None, ("as seen",), "generic", ("look",))


def calls(marks: str) -> RankCollectives:
    """Calls of the rank in question, the last one open: ``A`` the one in which the others wait, ``C`` the one where it is."""
    kinds = {"A": ("0", "all_reduce"), "C": ("1", "barrier"), "x": ("0", "all_gather")}
    made = [
        Collective(kinds[mark][0], n + 1, kinds[mark][1], ((8,),), ((8,),), ("Float",), "completed")
        for n, mark in enumerate(marks)
    ]
    made[-1] = dataclasses.replace(made[-1], state="issued")
    return dataclasses.replace(records(2), calls=tuple(made))


def at_barrier(marks: str = "ACxACxACxC", number: int = 2, **more: Any) -> RankEvidence:
    standing = thread(user(44, "train_step"), Wait("collective", "barrier"))
    return rank(number, [standing], collectives=calls(marks), **more)


def told(
    *ways: Detour,
    skips: Sequence[Detour] = (),
    behind: bool = True,
    code: str = "collective_not_issued",
    others: Sequence[RankEvidence] = (),
    odd: RankEvidence | None = None,
) -> Finding:
    """Of rank 2, past the line at which the others wait."""
    ranks = [*(others or [reducing(n) for n in OTHERS]), odd or at_barrier()]
    past = Past((2,), OTHERS, NOW, AT, behind, ways, skips)
    (found,) = passed.told(build(job(*sorted(ranks, key=lambda r: r.rank), past=(past,))), [finding(code)])
    return found


@each(
    "way, said, cause",
    [
        (detour(), "`isfinite(loss)` at train.py:38 train_step did not hold", "The condition"),
        (detour(words="loss > 5", holds=True), "`loss > 5` at train.py:38 train_step held", "The condition"),
        (
            detour("exception", "RuntimeError"),
            "an exception was caught at train.py:38 train_step: `except RuntimeError`",
            "An exception on rank 2 led past the call",
        ),
        (detour("exception", ""), "an exception is on its way out, past train.py:38 train_step", "An exception"),
        (
            detour("loop", "for x in xs"),
            "the loop `for x in xs` at train.py:38 train_step ended, or never began",
            "The loop",
        ),
        (
            detour("unsynchronised", "model.no_sync()"),
            "gradients are not reduced within `model.no_sync()` at train.py:38 train_step",
            "Some ranks reduce their gradients in this backward pass, and rank 2 only accumulated them",
        ),
    ],
)
def test_the_one_way_past_the_call_is_the_cause(way: Detour, said: str, cause: str) -> None:
    found = told(way)
    assert found.evidence[-1] == f"rank 2 went past train.py:40 train_step, where ranks 0, 1, 3 wait: {said}"
    assert found.cause.startswith(cause)
    assert len(found.next_steps) == 1
    assert "train.py:38" in found.next_steps[0]


def test_of_several_ways_none_is_the_cause() -> None:
    found = told(detour(), detour("exception", "OSError"))
    assert found.evidence[-1].startswith("past train.py:40 train_step leads one of these: `isfinite(loss)` at")
    assert "; an exception was caught" in found.evidence[-1]
    assert (found.cause, list(found.next_steps)) == ("generic", ["look"])


def test_the_way_that_is_known_to_be_taken_is() -> None:
    values = (Variable("done", "train_step", MAIN, value(3)),)
    way = detour(words="done < 4", holds=True, taken=True, values=values)
    found = told(detour(), way, odd=stuck(2, user(44, "train_step"), Wait("sleep")))
    assert found.evidence[-1].endswith("wait: `done < 4` at train.py:38 train_step held (done = 3)")
    assert found.cause.startswith("The condition")


@each(
    "marks, went",
    [
        ("ACACACC", True),
        ("AACAACAACC", True),
        ("ACCACCACCC", True),
        ("ACACAC", False),  # the others are a round ahead
        ("AC", False),
        ("ACCACCACC", False),
        ("CCC", True),  # it never made that call
        ("xxC", True),
        ("ACACACA", False),
    ],
)
@each("behind", [True, False])
def test_only_who_has_not_made_the_call_in_this_round_has_gone_past_it(behind: bool, marks: str, went: bool) -> None:
    found = told(detour(), behind=behind, odd=at_barrier(marks), code="python_wait")
    assert (len(found.evidence) == 2) is went


def test_where_no_recorder_tells_of_its_calls_nothing_is_said() -> None:
    odd = stuck(2, user(44, "train_step"), Wait("sleep"))
    assert told(detour(), odd=odd, code="python_wait") == finding("python_wait")


def test_calls_are_told_apart_by_their_lines_where_these_are_known() -> None:
    """All of one kind and one group."""
    lines, pattern = {"A": 40, "C": 44}, "ACACACC"
    sites = tuple(CallSite("all_reduce", (Frame(TRAIN, line, "train_step"), MAIN)) for line in lines.values())
    made = dataclasses.replace(
        calls(pattern), calls=tuple(dataclasses.replace(c, group="0", op="all_reduce") for c in calls(pattern).calls)
    )
    at = {"0": {n + 1: "AC".index(mark) for n, mark in enumerate(pattern)}}
    odd = dataclasses.replace(at_barrier(), collectives=made)
    others = [reducing(n) for n in OTHERS]
    assert len(told(detour(), others=others, odd=odd, code="python_wait").evidence) == 1, "nothing tells the two apart"
    odd = dataclasses.replace(odd, call_sites=CallSites(sites, at))
    assert len(told(detour(), others=others, odd=odd, code="python_wait").evidence) == 1, "nobody knows theirs"
    theirs = CallSites(sites, {"0": {21: 0}})
    others = [dataclasses.replace(one, call_sites=theirs) for one in others]
    assert len(told(detour(), others=others, odd=odd, code="python_wait").evidence) == 2


@each("code", ["unequal_steps", "collective_mismatch"])
def test_a_round_that_may_have_been_left_out_before_is_told_and_what_to_do(code: str) -> None:
    found = told(
        detour("loop", "for x in xs"), skips=[detour("exception", "OSError")], code=code, odd=at_barrier("ACAC")
    )
    assert found.evidence[-1] == (
        "train.py:40 train_step is left out in a round in which: an exception was caught at train.py:38 train_step: `except OSError`"
    )
    assert found.cause == "generic"
    assert [step.partition(" ")[0] for step in found.next_steps] == ["Do", "look"]


ON_RANK = "state.is_world_process_zero and state.step == 5"


def test_a_branch_on_the_rank_is_told_as_one() -> None:
    found = told(detour(words=ON_RANK))
    assert found.cause == "The call is in a branch that not every rank takes."
    assert found.next_steps[0].startswith("Let every rank come to the call: move it out of the branch at train.py:38")


def test_a_branch_that_is_meant_leaves_no_round_out() -> None:
    at_work = at_barrier("ACAC")
    assert told(detour(words=ON_RANK), odd=at_work) == finding()
    found = told(detour(words=ON_RANK), detour(), odd=at_work)
    assert "isfinite" in found.evidence[-1]
    assert "is_world_process_zero" not in found.evidence[-1]


@each(
    "code, changed",
    [("collective_mismatch", True), ("collective_order", False), ("unequal_steps", False), ("python_wait", False)],
)
def test_what_a_finding_knows_better_stays(code: str, changed: bool) -> None:
    found = told(detour(), code=code)
    assert (found.cause != "generic") is changed
    assert len(found.evidence) == 2


def test_of_other_findings_nothing_is_said() -> None:
    assert told(detour(), code="gil_held") == finding("gil_held")


def extra_call(code: str, frames: Sequence[Frame] = ALL_REDUCE) -> Finding:
    """Rank 2 alone makes it."""
    past = Past(OTHERS, (2,), NOW, AT, True, [detour(words="x.bad")])
    before = Past((2,), OTHERS, AT, NOW, False, [])
    ranks = [at_barrier(number=n) for n in OTHERS]
    extra = rank(2, [thread(frames, Wait("collective", "all_reduce"))], collectives=calls("xCxCxA"))
    evidence = job(*sorted([*ranks, extra], key=lambda r: r.rank), past=(past, before))
    (found,) = passed.told(build(evidence), [finding(code)])
    return found


def test_who_alone_makes_a_call_is_told_what_leads_the_others_past_it() -> None:
    found = extra_call("collective_mismatch")
    assert "ranks 0, 1, 3 went past train.py:42 train_step, where rank 2 waits: `x.bad` at" in found.evidence[-1]


def test_what_others_leave_out_does_not_say_why_one_waits_for_something_of_its_own() -> None:
    assert extra_call("python_wait") == finding("python_wait")


def test_the_exceptions_that_it_handles_are_told() -> None:
    errors = (
        Handled("ConnectionError", "", Frame(TRAIN, 80, "report")),
        Handled("OutOfMemoryError", "CUDA out of memory", Frame(TRAIN, 12, "forward")),
    )
    odd = stuck(2, user(44, "train_step"), Wait("sleep"), handled=errors)
    assert told(odd=odd, code="python_wait").evidence[1:] == (
        "rank 2 handles ConnectionError, raised at train.py:80 report",
        "rank 2 handles OutOfMemoryError: CUDA out of memory, raised at train.py:12 forward",
    )


# --- DistributedDataParallel ----------------------------------------------------------------------------------------


def replicas(without: Sequence[str], **more: Any) -> dict[str, Any]:
    return {"replicas": (Replica("Model", 6, tuple(without), **more),)}


BUFFERS = Frame(f"{TORCH}/nn/parallel/distributed.py", 2100, "DistributedDataParallel._sync_buffers", library=True)
CLEARED = [f"p{i}" for i in range(6)]
"""By ``zero_grad()``."""


def unused(here: Sequence[str], there: Sequence[str] = (), **more: Any) -> Finding:
    others = [reducing(n, **replicas(there)) for n in OTHERS]
    return told(others=others, odd=at_barrier(**replicas(here, **more)))


def test_parameters_that_one_rank_did_not_use_are_named() -> None:
    found = unused(["vision.weight", "vision.bias", "frozen"], ["frozen"])
    assert found.evidence[-1] == (
        "rank 2 had no gradient for 2 of 6 parameters of Model, unlike ranks 0, 1, 3: vision.weight, vision.bias"
    )
    assert found.cause.startswith("The forward pass of rank 2 did not use these parameters.")
    assert "find_unused_parameters=True" in found.next_steps[1]


def test_after_zero_grad_the_optimizers_counts_tell_them() -> None:
    found = unused(CLEARED, left_out=("vision.weight",))
    assert (
        found.evidence[-1]
        == "rank 2 had no gradient for 1 of 6 parameters of Model, unlike ranks 0, 1, 3: vision.weight"
    )


@each("marks, told_of", [("AACAACAC", True), ("AACAACAAC", False), ("AC", True)])
def test_who_has_reduced_as_much_as_ever_has_used_all_parameters(marks: str, told_of: bool) -> None:
    others = [reducing(n, **replicas([])) for n in OTHERS]
    found = told(others=others, odd=at_barrier(marks, **replicas(["generator.weight"])))
    assert ("generator.weight" in found.evidence[-1]) is told_of


def test_of_many_parameters_the_first_are_named() -> None:
    assert unused([f"p{i}" for i in range(5)]).evidence[-1].endswith("p0, p1, p2, p3 and 1 more")


def test_where_unused_parameters_are_looked_for_they_are_not_the_cause() -> None:
    found = unused(["vision.weight"], finds_unused=True)
    assert "vision.weight" in found.evidence[-1]
    assert found.cause == "generic"


@each(
    "here, there",
    [
        (CLEARED, []),
        (["frozen"], ["frozen"]),
        ([], []),
    ],
)
def test_gradients_that_tell_nothing(here: list[str], there: list[str]) -> None:
    found = unused(here, there)
    assert found.evidence[-1] == "rank 2 ran train.py:40 train_step as well: nothing in the source leads past it"
    assert "model.module was called" in found.cause


def test_of_a_call_that_reduces_no_gradients_nothing_of_the_kind_is_said() -> None:
    assert told(others=list(map(waiting, OTHERS))) == finding()


def test_of_who_has_reduced_in_this_round_nothing_of_the_kind_is_said() -> None:
    assert told(odd=at_barrier("ACAC")) == finding()


def test_one_more_forward_pass_of_a_model_with_buffers() -> None:
    odd = rank(
        2, [thread((BUFFERS, *user(44, "validate")), Wait("collective", "broadcast"))], collectives=calls("ACAC")
    )
    found = told(odd=odd, code="collective_mismatch")
    assert found.evidence[-1].startswith(
        "rank 2: a forward pass at train.py:44 validate, with which DistributedDataParallel"
    )
    assert "rank 2 made one more" in found.cause


def test_what_leads_the_others_past_that_forward_pass_is_told_with_it() -> None:
    found = extra_call("collective_mismatch", (BUFFERS, *user(42, "validate")))
    assert [line.partition(":")[0] for line in found.evidence[1:]] == ["ranks 0, 1, 3 went past train.py", "rank 2"]
    assert found.cause.startswith("The condition")
    assert len(found.next_steps) == 2


# --- records of calls ------------------------------------------------------------------------------------------------


def skipped(past: set[tuple[int, int]], n: int = 4) -> list[Finding]:
    """Four steps of a reduction of gradients and an average of metrics; then rank 2 waits in an average, the others in a reduction."""
    groups = {"0": ("default_pg", range(n)), "1": ("metrics", range(n))}
    made = [Recorder("gloo", groups) for _ in range(n)]
    for recorder in made:
        for _ in range(4):
            recorder.call("all_reduce", "0").call("all_reduce", "1")
    found = []
    for r, recorder in enumerate(made):
        recorder.call("all_reduce", "1" if r == 2 else "0", done=False)
        summary = flight.summary([recorder.dump()], place=lambda frames: frames)
        newest = recorder.entries[-1]["time_created_ns"] / 1e9
        found.append(rank_collectives(r, 0, {**summary, "now_s": newest + 30}, source="dump"))
    return findings(found, world_size=n, past=past)


def test_who_is_past_a_call_by_the_source_has_left_it_out() -> None:
    (found,) = skipped({(2, r) for r in OTHERS})
    assert (found.code, found.ranks) == ("collective_not_issued", (2,))
    assert found.title.startswith("Rank 2 has not issued all_reduce #5 of the default group")


def test_by_the_records_alone_it_may_make_it_later() -> None:
    (found,) = skipped(set())
    assert (found.code, found.ranks) == ("collective_order", (2,))
