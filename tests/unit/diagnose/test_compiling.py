"""A rank that compiles, exports or builds while the others wait: from hand-made evidence."""

from __future__ import annotations

import dataclasses
from typing import Any

from cases import each
from hang_evidence import BACKWARD, MAIN, TORCH, TRAIN, activity, job, rank, stepping, stuck, thread, user, waiting

from jupyter_traindbg.diagnose.hang.compiling import compiles_again
from jupyter_traindbg.diagnose.hang.ranks import view
from jupyter_traindbg.diagnose.running import diagnose
from jupyter_traindbg.model import (
    Activity,
    Compilation,
    Compilations,
    Diagnosis,
    Finding,
    Frame,
    NotAvailable,
    RankEvidence,
    Wait,
)

MODEL = Frame("/home/ada/model.py", 12, "Policy.forward")
STEP = Frame(TRAIN, 63, "step")
COMPILE = Frame(f"{TORCH}/_dynamo/convert_frame.py", 1700, "_compile", library=True)
EXPORT = Frame(f"{TORCH}/export/_trace.py", 2439, "_export", library=True)
BUILD = Frame(f"{TORCH}/utils/cpp_extension.py", 2500, "_jit_compile", library=True)
RESULT = Frame("/usr/lib/python3.11/concurrent/futures/_base.py", 451, "Future.result", library=True)
SIZE = "0/0: tensor 'x' size mismatch at index 0. expected 8, actual 32"


def compiling(
    now: Compilation | None = None, *past: Compilation, number: int = 2, frames: Any = None, **more: Any
) -> RankEvidence:
    """A rank at work in torch."""
    known = NotAvailable("no agent") if now is None else Compilations(now, past)
    return rank(number, [thread(frames or (COMPILE, STEP, MAIN))], cpu=0.9, compilations=known, **more)


def others(*past: Compilation, timeout_s: float | None = 600.0, **more: Any) -> list[RankEvidence]:
    """Ranks 0, 1 and 3, which wait in an all_reduce."""
    return [_with_time_out(waiting(n, **more), timeout_s, Compilations(None, past)) for n in (0, 1, 3)]


def _with_time_out(one: RankEvidence, timeout_s: float | None, known: Compilations) -> RankEvidence:
    told = one.collectives
    assert not isinstance(told, NotAvailable)
    calls = [dataclasses.replace(call, timeout_s=timeout_s) for call in told.calls]
    return dataclasses.replace(one, collectives=dataclasses.replace(told, calls=calls), compilations=known)


def verdict(*ranks: RankEvidence) -> Diagnosis:
    return diagnose(job(*ranks))


def the(found: Diagnosis) -> Finding:
    (one,) = found.findings
    assert one.code == "cpu_phase"
    return one


def test_what_compiles_since_when_and_why_is_told_while_the_others_wait() -> None:
    before = Compilation(MODEL, 4.0, 1)
    found = verdict(*others(), compiling(Compilation(MODEL, 12.0, 2, SIZE), before))
    one = the(found)
    assert (found.state, one.severity, list(one.who)) == ("progressing", "info", ["rank 2"])
    assert one.title == "Rank 2 is compiling at train.py:63 step while the others wait: it gets on, nothing is stuck"
    assert one.where == f"{TRAIN}:63 step"
    assert one.evidence[0] == (
        "rank 2 compiles model.py:12 Policy.forward for the 2nd time, for 12 s so far: "
        "tensor 'x' size mismatch at index 0. expected 8, actual 32"
    )
    assert "before that, the last graph that rank 2 compiled took 4.0 s" in one.evidence
    assert one.evidence[-1] == (
        "the wait of ranks 0, 1, 3 ends with the time-out of the process group after 10 min, of which 9 min 30 s are left"
    )
    assert "does not fit what has come on these ranks alone: tensor 'x' size mismatch" in one.cause
    assert "dynamic=True" in one.next_steps[1]


def test_a_cold_cache_is_told_from_those_that_found_theirs() -> None:
    same = Compilation(dataclasses.replace(MODEL, function="forward"), 2.0, 1, cached=True)
    one = the(verdict(*others(same), compiling(Compilation(MODEL, 40.0, 1))))
    assert "ranks 0, 1, 3 compiled the same within 2.0 s, out of a cache" in one.evidence
    assert one.cause == "Its cache is cold: the others found in theirs what has to be made here."
    assert "TORCHINDUCTOR_CACHE_DIR" in one.next_steps[1]
    slower = the(verdict(*others(dataclasses.replace(same, cached=False)), compiling(Compilation(MODEL, 40.0, 1))))
    assert "here it takes longer" in slower.cause


def test_that_only_this_rank_has_called_it_is_said_only_where_the_others_are_known() -> None:
    now = Compilation(MODEL, 5.0, 1)
    assert "the others have not called this one" in the(verdict(*others(), compiling(now))).cause
    unknown = [dataclasses.replace(one, compilations=NotAvailable("no agent")) for one in others()]
    assert "or because what was compiled before" in the(verdict(*unknown, compiling(now))).cause
    wrapped = dataclasses.replace(now, wraps="Sequential")
    one = the(verdict(*others(), compiling(wrapped)))
    assert one.evidence[0] == "rank 2 compiles Sequential, for 5.0 s so far"
    assert "or because what was compiled before" in one.cause


def test_the_time_out_may_come_first() -> None:
    """Elsewhere the same took half an hour, and 9 and a half minutes are left."""
    same = Compilation(MODEL, 1800.0, 1, cached=False)
    one = the(verdict(*others(same), compiling(Compilation(MODEL, 40.0, 1))))
    assert one.next_steps[0].startswith("The time-out comes first: elsewhere the same took 30 min.")
    quick = dataclasses.replace(same, seconds=60.0)
    assert the(verdict(*others(quick), compiling(Compilation(MODEL, 40.0, 1)))).next_steps[0].startswith("Wait;")


def test_it_becomes_a_warning_when_half_of_the_time_out_is_over() -> None:
    now = Compilation(MODEL, 40.0, 1)
    assert the(verdict(*others(timeout_s=50.0), compiling(now))).severity == "warning"
    assert the(verdict(*others(timeout_s=None, waiting_s=400.0), compiling(now))).severity == "warning"
    assert the(verdict(*others(timeout_s=None), compiling(now))).severity == "info"


def test_what_is_usual_is_told_as_well_when_half_of_the_time_out_is_over() -> None:
    saves = (Frame(f"{TORCH}/serialization.py", 900, "save", library=True), STEP, MAIN)
    assert verdict(*others(timeout_s=600.0), compiling(frames=saves)).findings == ()
    one = the(verdict(*others(timeout_s=50.0), compiling(frames=saves)))
    assert one.title.startswith("Rank 2 is saving a checkpoint at train.py:63 step")


def test_at_the_beginning_who_is_merely_done_later_is_no_finding() -> None:
    """Without a pause that the job has got over before, what the others' took tells what is usual."""
    fresh = [dataclasses.replace(one, collectives=_without_history(one)) for one in others(Compilation(MODEL, 28.0, 1))]

    def beside(now: Compilation | None, **more: Any) -> tuple[str, int]:
        own = dataclasses.replace(compiling(now, **more), collectives=NotAvailable("none"))
        found = verdict(*fresh, own)
        return found.state, len(found.findings)

    assert beside(Compilation(MODEL, 40.0, 1)) == ("progressing", 0)
    assert beside(Compilation(MODEL, 60.0, 1)) == ("progressing", 1)
    assert beside(None) == ("progressing", 0)
    assert beside(None, frames=(BUILD, STEP, MAIN)) == ("progressing", 1)


def _without_history(one: RankEvidence) -> Any:
    told = one.collectives
    assert not isinstance(told, NotAvailable)
    return dataclasses.replace(told, calls=told.calls[-1:])


@each(
    ("frame", "what"),
    [(EXPORT, "exporting a model"), (BUILD, "building a C++ extension")],
)
def test_an_export_and_a_build_point_at_the_line_that_asked_for_them(frame: Frame, what: str) -> None:
    traced = Frame("/home/ada/model.py", 30, "Policy.body")
    one = the(verdict(*others(), compiling(frames=(traced, frame, STEP, MAIN))))
    assert one.title.startswith(f"Rank 2 is {what} at train.py:63 step")
    assert one.where == f"{TRAIN}:63 step"
    assert any("model.py:30 Policy.body" in line for line in one.evidence)


def test_several_ranks_are_told_in_their_number() -> None:
    two = [compiling(Compilation(MODEL, 9.0, 1), number=n) for n in (1, 2)]
    one = the(verdict(others()[0], *two, others()[2]))
    assert one.title.startswith("Ranks 1, 2 are compiling at train.py:63 step while the others wait: they get on")


def test_the_compilers_below_are_its_progress_also_where_they_come_and_go() -> None:
    """A future that only worker threads of torch's bring about, by programs each of which lasts for less than the look."""
    frames = (RESULT, COMPILE, STEP, MAIN)
    waits = thread(frames, Wait("future"))
    own = dataclasses.replace(activity(1002), ended_cpu_share=0.8)
    found = verdict(*others(), rank(2, [waits], activity=own))
    assert found.state == "progressing"
    assert "programs that it had started have used a CPU, and ended during the look" in the(found).evidence
    still = verdict(*others(), rank(2, [waits]))
    assert (still.state, still.findings[0].code) == ("stuck", "python_wait")
    joins = thread((COMPILE, STEP, MAIN), Wait("child", "program"))
    monitored = verdict(*others(), rank(2, [joins], activity=own))
    assert monitored.state == "stuck", "another thread may look at the machine by a program, again and again"


def test_a_compiler_that_it_has_started_is_named_beside_what_it_does_itself() -> None:
    gxx = Activity(77, "child", "/usr/lib/gcc/cc1plus -quiet", 1.5, "R", 0.9, (), running_s=3.0)
    one = the(verdict(*others(), compiling(Compilation(MODEL, 9.0, 1), children=(gxx,))))
    assert any("process 77 (`/usr/lib/gcc/cc1plus -quiet`) below it uses 90% of a CPU" in line for line in one.evidence)


def test_of_a_backward_pass_no_function_is_compiled_but_its_graph() -> None:
    capture = Frame(
        f"{TORCH}/_dynamo/compiled_autograd.py", 377, "AutogradCompilerInstance.begin_capture", library=True
    )
    one = the(verdict(*others(), compiling(frames=(capture, *BACKWARD[:1], STEP, MAIN))))
    assert one.title.startswith("Rank 2 is compiling at train.py:63 step")
    assert one.evidence[0] == "rank 2 compiles the graph of its backward pass"


def test_who_waits_while_it_compiles_is_stuck() -> None:
    """A backend of the user's that waits for a file, say."""
    found = verdict(*others(), stuck(2, (*user(12, "my_backend")[:1], COMPILE, STEP, MAIN), Wait("sleep")))
    assert (found.state, found.findings[0].code) == ("stuck", "python_wait")
    assert found.findings[0].where == f"{TRAIN}:12 my_backend"


def test_a_rank_that_is_slow_because_it_compiles_at_each_step_says_so() -> None:
    lately = [Compilation(MODEL, 1.5, n, f"0/{n}: x differs", ago_s=2.0 * (8 - n)) for n in range(2, 7)]
    one = dataclasses.replace(rank(2, [thread((STEP, MAIN))]), compilations=Compilations(None, lately))
    (said,) = compiles_again(view(one, {}))
    assert (
        said
        == "within the last 12 s, rank 2 has compiled 5 graphs, which took 7.5 s: model.py:12 Policy.forward: x differs"
    )
    seldom = [dataclasses.replace(c, seconds=0.1) for c in lately]
    long_ago = [dataclasses.replace(c, ago_s=100.0) for c in lately]
    first = [dataclasses.replace(c, number=1) for c in lately]
    for none in (seldom, long_ago, first, lately[:2]):
        assert compiles_again(view(dataclasses.replace(one, compilations=Compilations(None, none)), {})) == []


def test_a_job_that_gets_on_is_slow_where_one_rank_alone_compiles_in_every_step() -> None:
    lately = [Compilation(MODEL, 1.5, n, "0/1: x differs", ago_s=2.0 * (8 - n)) for n in range(2, 7)]
    ranks = [dataclasses.replace(stepping(n), compilations=Compilations(None)) for n in range(4)]
    assert verdict(*ranks).state == "healthy"
    ranks[2] = dataclasses.replace(ranks[2], compilations=Compilations(None, lately))
    found = verdict(*ranks)
    (one,) = found.findings
    assert (found.state, one.code, list(one.who)) == ("slow", "straggler", ["rank 2"])
    assert one.title == "Rank 2 compiles again and again, and the others wait for it"
    assert "dynamic=True" in one.next_steps[0]
    ranks[1] = dataclasses.replace(ranks[1], compilations=Compilations(None, lately))
    assert verdict(*ranks).state == "healthy"
