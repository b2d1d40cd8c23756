"""Verdicts on hangs, from hand-made evidence: right code, right rank, right place, root cause first, and nothing where nothing is wrong."""

from __future__ import annotations

import dataclasses

import many_ranks
import pytest
from cases import each
from hang_evidence import (
    ALL_REDUCE,
    BACKWARD,
    LOADER,
    STD,
    TORCH,
    TRAIN,
    activity,
    computing,
    ended,
    host,
    job,
    rank,
    records,
    source,
    stepping,
    stuck,
    thread,
    user,
    waiting,
)

from jupyter_traindbg.diagnose import hang, running
from jupyter_traindbg.diagnose.hang import again, order
from jupyter_traindbg.diagnose.hang.case import Hit, build
from jupyter_traindbg.diagnose.hang.words import and_list
from jupyter_traindbg.model import (
    Diagnosis,
    Finding,
    Frame,
    NotAvailable,
    Pace,
    RankEvidence,
    Silent,
    ThreadActivity,
    Wait,
)

SLEEP = stuck(2, user(61, "wait_for_quota"), Wait("sleep"))
OTHERS = (waiting(0), waiting(1), waiting(3))


def judged(*ranks: RankEvidence, **more: object) -> Diagnosis:
    return running.diagnose(job(*ranks, **more))  # type: ignore[arg-type]


def only(found: Diagnosis) -> Finding:
    assert [f.code for f in found.findings] == [found.findings[0].code]
    return found.findings[0]


# --- is it really stuck? -------------------------------------------------------------------------------------------


KERNEL_LOOP = (
    Frame(f"{STD}/selectors.py", 468, "EpollSelector.select", library=True),
    Frame(f"{STD}/asyncio/base_events.py", 1884, "BaseEventLoop._run_once", library=True),
    Frame("/opt/venv/lib/python3.11/site-packages/ipykernel/kernelapp.py", 758, "IPKernelApp.start", library=True),
)


def test_a_kernel_between_two_cells_is_idle_unless_other_ranks_wait_for_it() -> None:
    rest = stuck(0, KERNEL_LOOP, Wait("idle", "events"))
    found = judged(dataclasses.replace(rest, world_size=1))
    assert (found.state, found.findings, found.ranks[0].state) == ("idle", (), "idle")
    program = stuck(0, KERNEL_LOOP[:2], Wait("idle", "events"))
    assert judged(dataclasses.replace(program, world_size=1)).state == "stuck"
    assert judged(rest, waiting(1), waiting(2), waiting(3)).state == "stuck"


def test_a_kernel_that_asks_about_itself_is_at_rest() -> None:
    """Its training thread runs `%diagnose`, which waits for the looks at it."""
    ours = "/opt/venv/lib/python3.11/site-packages/jupyter_traindbg"
    cell = Frame("/tmp/ipykernel_7/3.py", 1, "<module>", library=False, cell=6)
    asking = (
        Frame(f"{ours}/outside/activity.py", 40, "watch", library=True),
        Frame(f"{ours}/magics/ipython.py", 210, "run", library=True),
        cell,
        *KERNEL_LOOP,
    )
    rest = stuck(0, asking, Wait("sleep"))
    found = judged(dataclasses.replace(rest, world_size=1))
    assert (found.state, found.findings, found.ranks[0].state) == ("idle", (), "idle")
    assert found.ranks[0].doing == "the kernel runs no cell but the one that asks"
    checkout = "/home/ann/jupyter_traindbg"  # as the repository may be called
    for file in (
        f"{ours}/agent/actions/tune.py",
        f"{checkout}/jupyter_traindbg/agent/recorder.py",
        f"{checkout}/train.py",
    ):
        trains = (Frame(file, 40, "traindbg_next", library=True), cell, *KERNEL_LOOP)
        assert judged(dataclasses.replace(stuck(0, trains, Wait("sleep")), world_size=1)).state == "stuck"
    assert judged(rest, waiting(1), waiting(2), waiting(3)).state == "stuck"


def test_a_job_that_steps_is_healthy() -> None:
    found = judged(*(stepping(n) for n in range(4)))
    assert (found.state, found.findings) == ("healthy", ())
    assert "5 steps" in found.why[0]
    assert {r.state for r in found.ranks} == {"stepping"}


def test_a_rank_that_waits_at_every_look_of_a_job_that_steps_is_no_finding() -> None:
    found = judged(stepping(0), stepping(1), stuck(2, LOADER, Wait("loader")), waiting(3))
    assert (found.state, found.findings) == ("healthy", ())


def test_collectives_without_optimizer_steps_are_progress_too() -> None:
    found = judged(*(dataclasses.replace(waiting(n), calls_in_window=3) for n in range(4)))
    assert (found.state, found.findings) == ("progressing", ())


def test_a_pause_that_the_job_has_got_over_before_is_no_finding() -> None:
    """A step every two seconds, most of it reading: all looks see the same place."""
    slow = [waiting(n, waiting_s=1.9, gap_s=2.0) for n in (0, 1, 3)]
    reads = stuck(2, user(61, "read"), Wait("sleep"), collectives=records(2, gap_s=2.0))
    found = judged(*slow, reads)
    assert (found.state, found.findings) == ("progressing", ())
    assert "2.0 s before" in found.why[-1]


def test_the_same_pause_is_a_finding_where_the_job_was_quick_before() -> None:
    found = judged(*(waiting(n, waiting_s=1.9, gap_s=0.01) for n in (0, 1, 3)), SLEEP)
    assert (found.state, only(found).code) == ("stuck", "python_wait")


def test_a_long_step_computes_and_is_not_stuck() -> None:
    model = Frame(f"{TORCH}/nn/modules/module.py", 1750, "Module._call_impl", library=True)
    forward = rank(2, [thread((model, *user(39, "train_step")))], cpu=1.0)
    found = judged(*OTHERS, forward)
    assert (found.state, found.findings) == ("progressing", ())
    assert found.why[-1] == "rank 2: in a forward pass"


@each(
    ("library", "function"),
    [
        ("<frozen importlib._bootstrap>", "_find_and_load"),
        ("torch/nn/init.py", "xavier_uniform_"),
        ("torch/serialization.py", "save"),
    ],
)
def test_importing_and_saving_while_others_wait_is_no_finding(library: str, function: str) -> None:
    file = library if library.startswith("<") else f"/opt/venv/lib/python3.11/site-packages/{library}"
    begin = Frame(TRAIN, 70, "<module>")
    found = judged(*OTHERS, rank(2, [thread((Frame(file, 900, function, library=True), begin))], cpu=0.9))
    assert (found.state, found.findings) == ("progressing", ())


def test_what_is_usual_is_told_when_it_puts_the_time_out_of_the_others_at_risk() -> None:
    saves = Frame(f"{TORCH}/serialization.py", 900, "save", library=True)
    one = rank(2, [thread((saves, *user(70, "end_of_epoch")))], cpu=0.9)
    assert judged(*(waiting(n, waiting_s=200.0) for n in (0, 1, 3)), one).findings == ()
    found = judged(*(waiting(n, waiting_s=400.0) for n in (0, 1, 3)), one)
    finding = only(found)
    assert (found.state, finding.code, finding.severity) == ("progressing", "cpu_phase", "warning")
    assert finding.title.startswith("Rank 2 is saving a checkpoint at train.py:70 end_of_epoch")
    assert "6 min 40 s" in " ".join(finding.next_steps)


@pytest.mark.parametrize("function", ["Trainer.evaluate", "validation_epoch", "save_model", "generate_samples"])
def test_what_the_users_function_is_called_tells_an_evaluation_from_a_preparation(function: str) -> None:
    assert judged(*OTHERS, computing(2, function=function)).findings == ()


def test_tokenising_on_one_rank_is_told_as_what_it_is() -> None:
    found = judged(*OTHERS, computing(2, 50, 51, 50))
    finding = only(found)
    assert (found.state, finding.code, finding.severity, list(finding.who)) == (
        "progressing",
        "cpu_phase",
        "warning",
        ["rank 2"],
    )
    assert finding.where == f"{TRAIN}:50 tokenise"
    assert "nothing is stuck" in finding.title
    assert any("all_reduce #21" in line for line in finding.evidence)


@pytest.mark.parametrize("words", [Wait("file", "read", "/mnt/nfs/model.pt"), Wait("network", "read")])
def test_a_file_or_a_download_that_comes_is_progress(words: str) -> None:
    """At the same line at every look, hardly any CPU, and woken up all the time."""
    main = ThreadActivity(1002, "python", "S", 0.02, 200, call="read")
    loads = stuck(2, DISK, words, activity=activity(1002, threads=[main]))
    found = judged(*OTHERS, loads)
    assert (found.state, [f.severity for f in found.findings if f.code != "cpu_phase"]) == ("progressing", [])
    reads = stuck(2, DISK, words, activity=activity(1002, read_bytes_per_s=3e8))
    assert judged(*OTHERS, reads).state == "progressing"


def test_nothing_to_look_at_is_said_and_is_a_failure() -> None:
    unread = RankEvidence(0, 1, 0, 12, "node-1", problem="process 12 belongs to ada")
    found = judged(unread, silent=(Silent(0, 12, "process 12 belongs to ada"),))
    assert found.failure == "no rank could be looked at: process 12 belongs to ada"
    assert judged(*OTHERS, SLEEP).failure is None


def test_nothing_to_look_at_is_not_called_healthy() -> None:
    assert judged(RankEvidence(0, 1, 0, 12, "node-1", problem="process 12 belongs to ada")).state == "not known"


# --- root causes of one rank ---------------------------------------------------------------------------------------

DISK = user(33, "read_shard")


@each(
    ("frames_", "words", "code"),
    [
        (user(61, "wait_for_quota"), Wait("sleep"), "python_wait"),
        (user(61, "ask"), Wait("terminal", "read"), "python_wait"),
        (
            (Frame(f"{STD}/subprocess.py", 1, "run", library=True), *user(61, "upload")),
            Wait("child", "program"),
            "python_wait",
        ),
        (
            (Frame(f"{STD}/queue.py", 171, "Queue.get", library=True), *user(61, "next")),
            Wait("queue"),
            "python_wait",
        ),
        (DISK, Wait("file", "read", "/mnt/nfs/shard-7"), "io_wait"),
        (DISK, Wait("file", "open"), "io_wait"),
        (DISK, Wait("network", "read"), "io_wait"),
        ((Frame(f"{STD}/socket.py", 700, "SocketIO.readinto", library=True), *DISK), Wait("network"), "io_wait"),
        (user(61, "log"), Wait("lock", "file", "/tmp/x.lock"), "lock_wait"),
        (
            (Frame(f"{STD}/threading.py", 300, "Condition.wait", library=True), *user(61, "f")),
            Wait("thread"),
            "python_wait",
        ),
    ],
)
@each("language", ["en", "zh"])
def test_a_rank_that_waits_for_something_of_its_own(
    monkeypatch: pytest.MonkeyPatch, frames_: tuple[Frame, ...], words: str, code: str, language: str
) -> None:
    monkeypatch.setenv("TRAINDBG_LANG", language)
    found = judged(*OTHERS, stuck(2, frames_, words))
    finding = only(found)
    mine = next(f for f in frames_ if not f.library)
    assert (found.state, finding.code, list(finding.who)) == ("stuck", code, ["rank 2"])
    assert finding.where == f"{TRAIN}:{mine.line} {mine.function}"
    assert any("all_reduce #21" in line and "0, 1, 3" in line and "30" in line for line in finding.evidence)
    assert finding.next_steps
    for told in (finding.title, finding.cause, *finding.evidence, *finding.next_steps, *found.why):
        assert (language == "zh") == any("\u4e00" <= c <= "\u9fff" for c in told), told


def test_what_others_wait_in_is_the_evidence_and_not_a_second_finding() -> None:
    finding = only(judged(*OTHERS, SLEEP))
    assert [line for line in finding.evidence if "never issued" in line or "not issued" in line or "so:" in line]


def test_ranks_that_wait_at_the_same_place_are_one_finding() -> None:
    found = judged(*(stuck(n, DISK, Wait("file", "read", "/mnt/nfs/shard-7")) for n in range(4)))
    assert list(only(found).who) == ["rank 0", "rank 1", "rank 2", "rank 3"]


def test_the_source_line_tells_the_terminal_from_a_pipe_and_a_lock_from_another_wait() -> None:
    lines = source(61, 'answer = input("Overwrite? ")') | source(62, "with self.lock:", takes=["self.lock"])
    asked = judged(*OTHERS, stuck(2, user(61, "save"), Wait("pipe", "read")), sources=lines)
    assert (only(asked).code, "person" in only(asked).cause) == ("python_wait", True)
    assert only(judged(*OTHERS, stuck(2, user(62, "log"), Wait("native")), sources=lines)).code == "lock_wait"
    assert only(judged(*OTHERS, stuck(2, user(63, "f"), Wait("native")))).confidence == "low"


def test_a_wait_without_a_frame_of_its_own_is_a_collective_where_the_recorder_has_an_open_call() -> None:
    backward = [
        rank(n, [thread(BACKWARD, Wait("backward"))], collectives=records(n, waits="all_reduce")) for n in (0, 1, 3)
    ]
    finding = only(judged(*backward, SLEEP))
    assert (finding.code, list(finding.who)) == ("python_wait", ["rank 2"])


def test_without_a_recorder_a_wait_in_backward_is_one_for_the_others() -> None:
    none = NotAvailable("torch 2.6 records no calls of gloo")
    victims = [rank(n, [thread(BACKWARD, Wait("backward"))], collectives=none) for n in (0, 1, 3)]
    finding = only(judged(*victims, stuck(2, user(61, "wait_for_quota"), Wait("sleep"), collectives=none)))
    assert (finding.code, list(finding.who)) == ("python_wait", ["rank 2"])
    assert any("ranks 0, 1, 3 wait for the backward pass" in line for line in finding.evidence)


def test_stopped_ranks_are_named_together_with_the_command_that_lets_them_go_on() -> None:
    halted = [stuck(n, user(44, "main"), Wait("native"), state="T", problem="it is stopped") for n in (1, 3)]
    found = judged(waiting(0), halted[0], waiting(2), halted[1])
    finding = only(found)
    assert (found.state, finding.code, list(finding.who)) == ("stuck", "rank_stopped", ["rank 1", "rank 3"])
    assert "kill -CONT 1001 1003" in finding.next_steps[0]
    assert [r.state for r in found.ranks] == ["waiting", "stopped", "waiting", "stopped"]


def test_a_debugger_is_named_by_its_pid() -> None:
    held = stuck(2, user(44, "main"), Wait("sleep"))
    held = dataclasses.replace(held, activity=activity(1002, state="t", traced_by=4711))
    finding = only(judged(*OTHERS, held))
    assert finding.code == "rank_stopped"
    assert "4711" in finding.next_steps[0]


def test_a_frozen_container() -> None:
    main = ThreadActivity(1002, "python", "D", 0.0, 0, wchan="__refrigerator")
    frozen = stuck(2, user(44, "main"), None, activity=activity(1002, state="D", threads=[main]))
    assert "frozen" in only(judged(*OTHERS, frozen)).title


def test_uninterruptible_sleep_outranks_the_gil_that_is_held_meanwhile() -> None:
    main = ThreadActivity(1002, "python", "D", 0.0, 0, wchan="nfs_wait_bit_killable")
    asleep = [thread(DISK, Wait("file", "open"), state="in uninterruptible sleep", holds_gil=True)]
    hung = rank(
        2,
        asleep,
        source="py-spy",
        problem="C code holds the GIL",
        shut_out=True,
        activity=activity(1002, state="D", threads=[main]),
    )
    finding = judged(*OTHERS, hung).findings[0]
    assert (finding.code, finding.where) == ("uninterruptible", f"{TRAIN}:33 read_shard")
    assert "nfs_wait_bit_killable" in finding.evidence[0]


def test_a_checkpoint_that_is_being_written_is_no_hang_in_the_kernel() -> None:
    main = ThreadActivity(1002, "python", "D", 0.0, 0, wchan="folio_wait_writeback", call="fsync")
    busy = activity(1002, state="D", threads=[main], written_bytes_per_s=2e8)
    writes = stuck(2, user(70, "save"), Wait("file", "sync"), activity=busy)
    assert judged(*OTHERS, writes).findings == ()


def test_d_state_that_passes_is_nothing() -> None:
    main = ThreadActivity(1002, "python", "D", 0.3, 400)
    reads = rank(
        2, [[thread(user(n, "read"))] for n in (1, 2, 3)], activity=activity(1002, state="D", threads=[main], cpu=0.3)
    )
    assert "uninterruptible" not in [f.code for f in judged(*OTHERS, reads).findings]


@pytest.mark.parametrize(("cpu", "word"), [(0.0, "sleeps"), (1.0, "computes")])
def test_a_c_call_that_keeps_the_gil(cpu: float, word: str) -> None:
    holder = [thread(user(55, "clean"), None, state="running", holds_gil=True)]
    hung = rank(
        2,
        holder,
        source="py-spy",
        cpu=cpu,
        problem="C code in process 1002 holds the GIL",
        shut_out=True,
        collectives=NotAvailable("no agent"),
    )
    found = judged(*OTHERS, hung, sources=source(55, 'TRAILING.sub("", line)'))
    finding = only(found)
    assert (found.state, finding.code, finding.where) == ("stuck", "gil_held", f"{TRAIN}:55 clean")
    assert word in finding.title
    assert "TRAILING.sub" in finding.evidence[0]


def test_python_code_that_holds_the_gil_where_we_may_not_enter_is_no_gil_held() -> None:
    holder = [[thread(user(n, "loop"), None, state="running", holds_gil=True)] for n in (55, 55, 55)]
    runs = rank(2, holder, source="py-spy", cpu=1.0, problem="Yama ptrace_scope is 1")
    assert "gil_held" not in [f.code for f in judged(*OTHERS, runs).findings]


@pytest.mark.parametrize("going_on", [{"major_faults_per_s": 900.0}, {"swap_growth_bytes_per_s": 5e7}])
def test_swapping(going_on: dict[str, float]) -> None:
    swaps = computing(2, activity=None)
    swaps = dataclasses.replace(swaps, activity=activity(1002, cpu=0.2, swap_bytes=2**31, **going_on))
    found = judged(*OTHERS, swaps)
    assert [f.code for f in found.findings] == ["swapping"]
    assert found.state == "slow"  # "gets on" alone would call it well


@pytest.mark.parametrize(("gap_s", "called"), [(2.0, "slow"), (0.01, "stuck")])
def test_a_rank_that_stands_still_to_swap_is_slow_until_it_is_overdue(gap_s: float, called: str) -> None:
    swaps = activity(1002, cpu=0.0, swap_bytes=2**31, major_faults_per_s=900.0)
    at = thread(user(61, "read"), state="in uninterruptible sleep")
    reads = rank(2, [at], activity=swaps, collectives=records(2, gap_s=gap_s))
    assert judged(*(waiting(n, waiting_s=1.9, gap_s=gap_s) for n in (0, 1, 3)), reads).state == called


def test_what_was_swapped_out_long_ago_is_no_swapping() -> None:
    idle = activity(1002, cpu=0.2, swap_bytes=2**31, major_faults_per_s=3.0, swap_growth_bytes_per_s=0.0)
    found = judged(*OTHERS, dataclasses.replace(computing(2, activity=None), activity=idle))
    assert "swapping" not in [f.code for f in found.findings]


@pytest.mark.parametrize(("free_bytes", "whose"), [(2**30, "this host"), (200 * 2**30, "container")])
def test_whose_memory_is_too_little(free_bytes: int, whose: str) -> None:
    swaps = activity(1002, cpu=0.2, swap_bytes=2**31, major_faults_per_s=900.0)
    here = host(memory_free_bytes=free_bytes, memory_bytes=256 * 2**30)
    found = judged(*OTHERS, dataclasses.replace(computing(2, activity=None), activity=swaps), hosts=(here,))
    assert whose in found.findings[0].cause


# --- surroundings --------------------------------------------------------------------------------------------------


def test_full_shared_memory_and_disks_are_told_after_the_cause_and_only_of_a_job_that_does_not_step() -> None:
    full = host(shm_free_bytes=0, disk_free_bytes={"/home/ada": 0})
    found = judged(*OTHERS, SLEEP, hosts=(full,))
    assert [f.code for f in found.findings] == ["python_wait", "shm_full", "disk_full"]
    assert judged(*(stepping(n) for n in range(4)), hosts=(full,)).findings == ()


# --- order, words, looking again -----------------------------------------------------------------------------------


def test_a_symptom_goes_into_the_evidence_of_what_explains_all_its_ranks() -> None:
    def hit(code: str, *ranks: int) -> Hit:
        return Hit(Finding(code, "critical", f"title of {code}", evidence=[f"seen by {code}"]), ranks)

    found = order.findings([hit("collective_not_issued", 2), hit("straggler", 1), hit("io_wait", 2, 3)])
    assert [f.code for f in found] == ["io_wait", "straggler"]
    assert list(found[0].evidence) == ["seen by io_wait", "so: title of collective_not_issued"]
    apart = order.findings([hit("collective_not_issued", 1, 2), hit("io_wait", 2)])
    assert [f.code for f in apart] == ["io_wait", "collective_not_issued"]


def test_a_second_look_is_wanted_only_where_it_would_tell_more() -> None:
    def settles(*ranks: RankEvidence) -> float | None:
        return running.settles_in_s(job(*ranks))

    no_history = dataclasses.replace(SLEEP, collectives=NotAvailable("no process group"))
    assert settles(*OTHERS, SLEEP) is None
    assert settles(no_history) == again.WITHOUT_HISTORY_S
    slow = settles(
        *(waiting(n, waiting_s=1.5, gap_s=2.0) for n in (0, 1, 3)),
        stuck(2, DISK, Wait("sleep"), collectives=records(2, gap_s=2.0)),
    )
    assert slow == pytest.approx(2.0 * 1.5 + 0.5 - 1.5 + again.MARGIN_S)
    assert settles(*(stepping(n) for n in range(4))) is None
    counted = computing(0, 40, 41, 42, pace=Pace(0, None, None, None))
    assert settles(counted) == again.WITHOUT_HISTORY_S, "its first step may come"
    assert settles(dataclasses.replace(counted, pace=NotAvailable("no torch"))) is None, "nothing counts its steps"
    assert settles(*OTHERS, ended(2, signal="SIGKILL")) is None


def test_two_looks_are_one_evidence_and_steps_between_them_count() -> None:
    paced = dataclasses.replace(SLEEP, pace=Pace(3, 3, 1.0, 2.0))
    later = dataclasses.replace(paced, pace=Pace(4, 4, 0.1, 2.0))
    both = running.over_time(job(paced), job(later), later_s=4.0)
    assert [look.at_s for look in both.ranks[0].looks] == [0.0, 0.75, 1.5, 4.0, 4.75, 5.5]
    assert running.diagnose(job(paced)).state == "stuck"
    assert running.diagnose(both).state == "healthy"


def test_calls_between_two_looks_count() -> None:
    later = dataclasses.replace(waiting(0), collectives=records(0, issued=25, waits="all_reduce"))
    both = running.over_time(job(waiting(0)), job(later), later_s=4.0)
    assert both.ranks[0].calls_in_window == 5
    assert running.diagnose(both).state == "progressing"


def test_words() -> None:
    assert [and_list(x) for x in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == ["", "a", "a and b", "a, b and c"]


def test_every_rule_family_is_found() -> None:
    names = {rule.__module__.rsplit(".", 1)[-1] for rule in hang.rules()}
    assert {
        "collective",
        "ended",
        "gil",
        "loader",
        "locks",
        "phase",
        "startup",
        "stopped",
        "surroundings",
        "waits",
    } <= names


def test_of_many_ranks_the_one_is_named() -> None:
    found = running.diagnose(many_ranks.hang(400, odd=234))
    assert list(found.findings[0].who) == ["rank 234"]


def test_the_training_thread_is_looked_at_and_not_the_first_one() -> None:
    helper = thread((Frame(f"{STD}/queue.py", 1, "get", library=True),), Wait("queue"), name="helper", tid=9)
    case = build(job(rank(0, [helper, thread(ALL_REDUCE, Wait("collective", "all_reduce"))])))
    assert case.views[0].now.operation == "all_reduce"
