"""Root against consequence, causes by numbers, whom and where: with small families of their own, so that knowledge may change."""

from __future__ import annotations

from dataclasses import replace

import pytest
from log_evidence import error, evidence, full_of_literals, judged, lines

from jupyter_traindbg.diagnose.log import judge
from jupyter_traindbg.diagnose.log.family import Family
from jupyter_traindbg.diagnose.log.knowledge import families, parse
from jupyter_traindbg.model import Finding, LogEvidence, LogFrame, LogSeries
from jupyter_traindbg.questions.jobless.log import of_text


def family(code: str, *signals: str, explains: str = "", causes: str = "", refutes: str = "") -> Family:
    """A family of few words; `signals` are the bodies of its ``[[signal]]`` tables."""
    numbered = (f'[[signal]]\nid = "s{n}"\nexample = "x"\n{body}\n' for n, body in enumerate(signals))
    last = """
[[cause]]
id = "any"
when = []
text = {en = "of some kind", zh = "某种"}
steps = [{en = "look", zh = "看"}]
confidence = "high"
"""
    head = f"""
code = "{code}"
severity = "critical"
title = {{en = "{code}", zh = "{code}"}}
about = {{en = "a", zh = "b"}}
explains = [{explains}]
"""
    return parse("\n".join([head, *numbered, refutes, causes, last]), f"{code}.toml")


MEMORY = family("memory", 'anchor = ["out of memory"]\nrole = "root"\nweight = 0.9', explains='"timeout", "engine"')
TIMEOUT = family("timeout", 'anchor = ["timed out waiting"]\nrole = "symptom"\nweight = 0.9')
ENGINE = family("engine", 'anchor = ["engine failed"]\nrole = "wrapper"\nweight = 0.9')
DISK = family("disk", 'anchor = ["disk is full"]\nrole = "root"\nweight = 0.9')


def codes(ev: LogEvidence, *known: Family) -> list[str]:
    return [f.code for f in first(ev, *known)]


def first(ev: LogEvidence, *known: Family) -> tuple[Finding, ...]:
    return judge(ev, families={f.code: f for f in known}).findings


# --- order ---------------------------------------------------------------------------------------------------------


def test_the_root_comes_first_and_what_it_explains_is_its_evidence_though_that_was_printed_last() -> None:
    (found,) = first(
        evidence("[rank2]: GPU out of memory\n[rank0]: timed out waiting for rank 2\nengine failed"),
        MEMORY,
        TIMEOUT,
        ENGINE,
    )
    assert (found.code, found.who) == ("memory", ("rank 2",))
    assert found.evidence == (
        "a.log:1 GPU out of memory",
        "a.log:2 timed out waiting for rank 2",
        "a.log:3 engine failed",
    )


def test_a_root_explains_a_symptom_that_was_printed_before_it() -> None:
    assert codes(evidence("timed out waiting\nkernel: out of memory"), MEMORY, TIMEOUT) == ["memory"]


def test_a_consequence_never_explains_its_root_whatever_a_file_says() -> None:
    backwards = replace(TIMEOUT, explains=("memory",))
    assert codes(evidence("timed out waiting\nout of memory"), replace(MEMORY, explains=()), backwards) == [
        "memory",
        "timeout",
    ]


def test_a_wrapper_alone_is_told_and_beside_anything_else_it_is_not() -> None:
    assert codes(evidence("engine failed"), ENGINE, DISK) == ["engine"]
    assert codes(evidence("engine failed\ndisk is full"), ENGINE, DISK) == ["disk"]


def test_two_roots_are_told_in_the_order_in_which_they_happened() -> None:
    assert codes(evidence("disk is full\nout of memory"), MEMORY, DISK) == ["disk", "memory"]
    assert codes(evidence("out of memory\ndisk is full"), MEMORY, DISK) == ["memory", "disk"]


def test_of_two_that_know_the_same_line_the_surer_one_comes_first() -> None:
    surer = family("a_surer", 'anchor = ["out of memory"]\nrole = "root"\nweight = 0.95')
    less = family("a_less", 'anchor = ["out of memory"]\nrole = "root"\nweight = 0.75')
    assert codes(evidence("out of memory"), less, surer) == ["a_surer", "a_less"]


def test_the_clock_decides_between_files() -> None:
    made = evidence("a\nb\nout of memory", "disk is full")
    assert codes(made, MEMORY, DISK) == ["disk", "memory"]  # no clock: the line
    timed = [replace(line, time_s=1e9 + (10 if line.source == 0 else 20)) for line in made.lines]
    assert codes(replace(made, lines=timed), MEMORY, DISK) == ["memory", "disk"]


def test_the_inner_exception_comes_before_what_it_was_wrapped_in_though_ray_prints_it_later() -> None:
    text = "Traceback: disk is full\n  while handling\nout of memory"
    a, _, c = lines(text)
    chain = error(a, "OSError", last=2, inner=error(c, "RuntimeError", "out of memory"))
    assert codes(evidence(text), MEMORY, DISK) == ["disk", "memory"]
    assert codes(evidence(text, errors=[chain]), MEMORY, DISK) == ["memory", "disk"]


def test_a_weak_root_comes_after_a_sure_symptom() -> None:
    guess = family("guess", 'anchor = ["something odd"]\nrole = "root"\nweight = 0.2')
    assert codes(evidence("something odd\ntimed out waiting"), guess, TIMEOUT) == ["timeout", "guess"]


# --- what the run got over -----------------------------------------------------------------------------------------


def series(*numbers: int) -> list[LogSeries]:
    return [LogSeries("loss", None, tuple((n, 1.0) for n in numbers), len(numbers))]


def test_what_the_run_got_over_is_no_failure_where_the_family_says_so() -> None:
    shaky = family("shaky", 'anchor = ["step skipped"]\nrole = "root"\nweight = 0.9\nunless_progress = true')
    text = "step skipped\nloss 1\nloss 2\nloss 3"
    assert codes(evidence(text), shaky) == ["shaky"]
    assert codes(evidence(text, series=series(2, 3, 4)), shaky) == []
    assert codes(evidence(text + "\nTraining completed"), shaky) == []
    assert codes(evidence("loss 1\nloss 2\nloss 3\nstep skipped", series=series(1, 2, 3)), shaky) == ["shaky"]


def test_what_ended_the_run_comes_before_what_it_got_over() -> None:
    text = "out of memory\nloss 1\nloss 2\nloss 3\ndisk is full"
    assert codes(evidence(text, series=series(2, 3, 4)), MEMORY, DISK) == ["disk", "memory"]


# --- refuting, hints, causes ---------------------------------------------------------------------------------------


def test_a_refuted_signal_does_not_count() -> None:
    refute = '[[refute]]\nid = "on_purpose"\nanchor = ["on purpose"]\nexample = "x"\n'
    known = family("memory", 'anchor = ["out of memory"]\nrole = "root"\nweight = 0.9', refutes=refute)
    assert codes(evidence("out of memory\non purpose"), known) == []
    near = family("memory", 'anchor = ["out of memory"]\nrole = "root"\nweight = 0.9', refutes=refute + "near = 2\n")
    assert codes(evidence("out of memory\n\n\n\non purpose"), near) == ["memory"]
    assert codes(evidence("out of memory\non purpose"), near) == []


CAUSES = """
[[cause]]
id = "others"
when = ["free_bytes < 100 MiB", "seen:s1"]
text = {en = "only {free_bytes} free", zh = "仅 {free_bytes} 空闲"}
steps = [{en = "stop pid {pid}", zh = "停掉 {pid}"}, {en = "wait", zh = "等"}]
confidence = "high"
"""
COUNTED = family(
    "memory",
    'anchor = ["out of memory"]\nregex = "(?P<free_bytes>[\\\\d.]+ MiB) free"\nrole = "root"\nweight = 0.9',
    'anchor = ["somebody else"]\nrole = "hint"\nregex = "somebody else[^\\\\d]*(?P<pid>\\\\d+)?"',
    causes=CAUSES,
)


def test_a_hint_makes_no_finding_but_decides_the_cause() -> None:
    assert codes(evidence("somebody else"), COUNTED) == []
    (found,) = first(evidence("out of memory, 3.44 MiB free\nsomebody else"), COUNTED)
    assert found.cause == "only 3.44 MiB free"
    assert found.next_steps == ("wait",), "a step that needs an unknown number is left out"
    (found,) = first(evidence("out of memory, 344 MiB free\nsomebody else"), COUNTED)
    assert found.cause == "of some kind"


def test_a_captured_pid_is_to_blame() -> None:
    (found,) = first(evidence("out of memory, 3.44 MiB free\nsomebody else: 4711"), COUNTED)
    assert found.next_steps[0] == "stop pid 4711"


# --- matching ------------------------------------------------------------------------------------------------------


def test_wrapped_and_quoted_text_is_found() -> None:
    known = family(
        "memory",
        'anchor = ["ran out of memory"]\nregex = "ran out of memory while loading"\nrole = "root"\nweight = 0.9',
    )
    assert codes(evidence("> the worker ran out\n> of memory while\n> loading"), known) == ["memory"]


def test_a_line_of_level_debug_shows_no_failure() -> None:
    assert codes(evidence("2031-01-01 DEBUG [probe.py:3] out of memory"), MEMORY) == []
    assert codes(evidence("2031-01-01 ERROR [probe.py:3] out of memory, set NCCL_DEBUG=INFO"), MEMORY) == ["memory"]


def test_a_pattern_follows_the_lines_of_its_own_rank() -> None:
    known = family(
        "memory",
        'anchor = ["out of memory"]\nregex = "(?s)out of memory.*GPU (?P<gpu>\\\\d)"\nrole = "root"\nweight = 0.9',
    )
    others = "\n".join(f"[rank1]: step {n}" for n in range(20))
    assert codes(evidence(f"[rank0]: out of memory\n{others}\n[rank0]: on GPU 3"), known) == ["memory"]
    assert codes(evidence("[rank0]: out of memory\n[rank1]: on GPU 3"), known) == []


def test_where_is_the_innermost_frame_of_the_persons_own_code() -> None:
    text = "Traceback\nout of memory"
    at = lines(text)[0]
    frames = [
        LogFrame("/home/me/train.py", 10, "main"),
        LogFrame("/home/me/model.py", 33, "forward"),
        LogFrame("/x/lib/python3.11/site-packages/torch/nn/linear.py", 5, "forward"),
    ]
    (found,) = first(evidence(text, errors=[error(at, "RuntimeError", "out of memory", last=2, frames=frames)]), MEMORY)
    assert found.where == "/home/me/model.py:33 forward"


# --- exceptions that nobody knows ----------------------------------------------------------------------------------

UNKNOWN = families()["uncaught_exception"]
FRAMES = [LogFrame("/home/me/train.py", 7, "step")]


@pytest.fixture
def _english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINDBG_LANG", "en")


@pytest.mark.usefixtures("_english")
def test_an_unknown_exception_is_named_with_its_place() -> None:
    text = "Traceback\n  File\nTypeError: bad operand"
    (found,) = first(
        evidence(text, errors=[error(lines(text)[0], "TypeError", "bad operand", last=3, frames=FRAMES)]), UNKNOWN
    )
    assert found.title == "An exception ended the run: TypeError in step (/home/me/train.py:7): bad operand"
    assert found.where == "/home/me/train.py:7 step"
    assert found.confidence in ("medium", "low")


@pytest.mark.parametrize(
    "kind", ["KeyboardInterrupt", "SystemExit", "torch.distributed.elastic.multiprocessing.api.SignalException"]
)
def test_what_the_person_did_is_no_failure(kind: str) -> None:
    text = f"Traceback\n{kind}"
    assert codes(evidence(text, errors=[error(lines(text)[0], kind, last=2, frames=FRAMES)]), UNKNOWN) == []


def test_an_exception_that_the_run_got_over_is_no_failure() -> None:
    text = "Traceback\nTypeError: x\nloss 1\nloss 2\nloss 3"
    made = error(lines(text)[0], "TypeError", last=2, frames=FRAMES)
    assert codes(evidence(text, errors=[made], series=series(3, 4, 5)), UNKNOWN) == []


def test_a_wrapper_in_the_traceback_of_ctrl_c_is_none() -> None:
    text = 'Traceback\n  File "engine.py", in engine failed\nKeyboardInterrupt'
    frames = [LogFrame("engine.py", 1, "f")]
    assert (
        codes(evidence(text, errors=[error(lines(text)[0], "KeyboardInterrupt", last=3, frames=frames)]), ENGINE) == []
    )
    assert codes(evidence(text, errors=[error(lines(text)[0], "ValueError", last=3, frames=frames)]), ENGINE) == [
        "engine"
    ]


def test_what_follows_ctrl_c_is_the_run_being_torn_down() -> None:
    text = "KeyboardInterrupt\nTraceback\nTypeError: x\ntimed out waiting"
    made = error(lines(text)[1], "TypeError", last=3, frames=FRAMES)
    assert codes(evidence(text, errors=[made]), UNKNOWN, TIMEOUT) == []
    assert codes(evidence(text + "\nout of memory", errors=[made]), UNKNOWN, TIMEOUT, MEMORY) == ["memory"]
    again = evidence(text.replace("Traceback", "loss\nloss\nloss\nTraceback"), series=series(2, 3, 4))
    assert codes(again, TIMEOUT) == ["timeout"], "it was started again"


def test_what_python_could_not_raise_is_no_failure() -> None:
    text = "Exception ignored in: <function Loader.__del__ at 0x7f>\nTraceback\nAssertionError: can only join a child"
    made = error(lines(text)[1], "AssertionError", last=3, frames=FRAMES)
    assert codes(evidence(text, errors=[made]), UNKNOWN) == []


def test_an_exception_without_traceback_counts_only_near_the_end() -> None:
    filler = "\n".join(["fine"] * 100)
    early, late = f"ValueError: x\n{filler}", f"{filler}\nValueError: x"
    assert codes(evidence(early, errors=[error(lines(early)[0], "ValueError", "x")]), UNKNOWN) == []
    assert codes(evidence(late, errors=[error(lines(late)[-1], "ValueError", "x")]), UNKNOWN) == ["uncaught_exception"]


def test_an_event_is_the_line_that_names_the_exception_and_never_a_mere_rule() -> None:
    rule = "=" * 60
    begun = "step 1 loss 2.3\nTraceback (most recent call last):\n"
    frame = '  File "/home/me/fit.py", line 9, in batch\n    check(rows)\n'
    (event,) = of_text(f"{begun}{frame}ValueError: no rows left\n").timeline
    assert (event.line.number, event.line.text) == (5, "ValueError: no rows left")
    boxed = f"╭{'─' * 20} Traceback (most recent call last) {'─' * 20}╮\n│ /home/me/fit.py:9 in batch │\n╰{'─' * 30}╯\n"
    (event,) = of_text(f"step 1 loss 2.3\n{boxed}ValueError: no rows left\n").timeline
    assert event.line.text == "ValueError: no rows left"
    (found,) = judged(f"{begun}{frame}RuntimeError: {rule}\nthe batch of step 5 is empty\n{rule}\n")
    assert (
        found.title
        == "An exception ended the run: RuntimeError in batch (/home/me/fit.py:9): the batch of step 5 is empty"
    )
    (event,) = of_text(f"{begun}{frame}").timeline
    assert event.line.text.startswith('  File "/home/me/fit.py"'), "it was cut off before its name"


def test_a_family_that_knows_the_exception_takes_it() -> None:
    text = "Traceback\nRuntimeError: out of memory"
    made = error(lines(text)[0], "RuntimeError", "out of memory", last=2, frames=FRAMES)
    assert codes(evidence(text, errors=[made]), UNKNOWN, MEMORY) == ["memory"]


@pytest.mark.usefixtures("_english")
def test_a_wrapper_tells_the_unknown_exception_within() -> None:
    text = "Traceback\nTypeError: bad operand\nengine failed"
    made = error(lines(text)[0], "TypeError", "bad operand", last=2, frames=FRAMES)
    (found,) = first(evidence(text, errors=[made]), UNKNOWN, ENGINE)
    assert (found.code, found.where) == ("engine", "/home/me/train.py:7 step")
    assert "TypeError" in found.cause


# --- much of it ----------------------------------------------------------------------------------------------------------


def test_a_log_of_nothing_but_literals_is_judged() -> None:
    """The worst that a reader keeps; benchmarks/bounds.py has 20,000 lines of it."""
    assert judge(full_of_literals(1_000)).findings
