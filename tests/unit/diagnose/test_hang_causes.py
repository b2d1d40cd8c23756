"""Verdicts on hangs by their causes: locks, peers, NCCL's own word, DataLoaders, ranks that have ended. From hand-made evidence."""

from __future__ import annotations

import dataclasses
from typing import Any

from hang_evidence import (
    DATA,
    IDLE_WORKER,
    LOADER,
    MAIN,
    STD,
    TORCH,
    TRAIN,
    WORKER,
    activity,
    ended,
    job,
    rank,
    source,
    stepping,
    stuck,
    thread,
    user,
    waiting,
)

from jupyter_traindbg.diagnose import running
from jupyter_traindbg.model import (
    Diagnosis,
    Finding,
    Frame,
    LockHolder,
    NotAvailable,
    Pace,
    RankEvidence,
    RasCommunicator,
    RasRank,
    RasReport,
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


# --- locks ---------------------------------------------------------------------------------------------------------

TWO = (
    source(10, "with self.files:", takes=["self.files"], within=["self.state"])
    | source(20, "with self.state:", takes=["self.state"], within=["self.files"])
    | source(30, "link.recv(1)", within=["self.state", "connect(server)"])
)


def in_threads(*others: object) -> RankEvidence:
    return rank(2, [thread(user(10, "save"), Wait("native")), *others])  # type: ignore[list-item]


def test_two_threads_with_two_locks_in_opposite_order() -> None:
    cleaner = thread((Frame(TRAIN, 20, "clean"),), Wait("native"), name="cleaner", tid=7)
    finding = only(judged(*OTHERS, in_threads(cleaner), sources=TWO))
    assert (finding.code, finding.where) == ("thread_deadlock", f"{TRAIN}:10 save")
    assert "thread cleaner" in finding.title
    assert "holding self.files" in " ".join(finding.evidence)


def test_a_lock_that_is_taken_twice() -> None:
    lines = source(10, "with self.state:", takes=["self.state"]) | source(90, "save()", within=["self.state"])
    finding = only(judged(*OTHERS, in_threads(), sources=lines))
    assert (finding.code, finding.confidence) == (
        "thread_deadlock",
        "medium",
    )  # another object's lock may have that name
    assert "holds itself" in finding.title
    named = source(10, "with LOCK:", takes=["LOCK"]) | source(90, "save()", within=["LOCK"])
    assert only(judged(*OTHERS, in_threads(), sources=named)).confidence == "high"


def test_who_holds_the_lock_is_told_by_the_block_that_it_stands_in() -> None:
    lines = {**TWO, **source(10, "with self.state:", takes=["self.state"])}
    uploader = thread((Frame(TRAIN, 30, "upload"),), Wait("network", "read"), name="uploader", tid=7)
    finding = only(judged(*OTHERS, in_threads(uploader), sources=lines))
    assert (finding.code, finding.where, finding.confidence) == ("lock_wait", f"{TRAIN}:10 save", "high")
    assert "thread uploader at train.py:30 upload" in finding.title


def test_an_unknown_holder_is_said_to_be_unknown() -> None:
    finding = only(judged(*OTHERS, in_threads(), sources=source(10, "with self.state:", takes=["self.state"])))
    assert (finding.code, finding.confidence) == ("lock_wait", "medium")
    assert "who holds it cannot be seen" in finding.evidence[1]


def test_locks_of_a_common_name_in_different_files_are_not_the_same() -> None:
    other = "/home/ada/other.py"
    lines = source(10, "with lock:", takes=["lock"]) | source(5, "work()", within=["lock"], file=other)
    holder = thread((Frame(other, 5, "run"),), Wait("sleep"), name="other", tid=7)
    assert "cannot be seen" in only(judged(*OTHERS, in_threads(holder), sources=lines)).evidence[1]


def test_a_pool_that_works_on_something_is_not_said_to_have_ended() -> None:
    main = thread(user(48, "finish"), Wait("future"))
    pool = (Frame("/usr/lib/python3.11/concurrent/futures/thread.py", 58, "_WorkItem.run", library=True),)
    busy = only(judged(*OTHERS, rank(2, [main, thread(pool, Wait("native"), name="ring_0", tid=7)])))
    assert "its thread ring_0 is in a call that a pool was given, outside of the program's own code" in busy.evidence
    assert not any("has ended" in line for line in busy.evidence)
    waits = (Frame("/usr/lib/python3.11/concurrent/futures/thread.py", 81, "_worker", library=True),)
    idle = only(judged(*OTHERS, rank(2, [main, thread(waits, Wait("queue"), name="ring_0", tid=7)])))
    assert any("who should have delivered has ended" in line for line in idle.evidence)


def test_cells_of_one_kernel_are_one_module() -> None:
    waits, holds = "/tmp/ipykernel_9/27.py", "/tmp/ipykernel_9/31.py"
    lines = source(7, "with lock:", takes=["lock"], file=waits) | source(6, "work()", within=["lock"], file=holds)
    main = thread((Frame(waits, 7, "<module>"),), Wait("native"))
    holder = thread((Frame(holds, 6, "run"),), Wait("sleep"), name="other", tid=7)
    finding = only(judged(*OTHERS, rank(2, [main, holder]), sources=lines))
    assert "held by its thread other" in finding.title


def test_a_file_lock_is_held_by_another_process_which_is_named() -> None:
    flock = [ThreadActivity(1002, "python", "S", 0.0, 0, call="flock", on="/data/cache.lock")]
    waits = stuck(
        2, user(61, "lock_cache"), Wait("lock", "file", "/data/cache.lock"), activity=activity(1002, threads=flock)
    )
    finding = only(judged(*OTHERS, waits, lock_holders={1002: LockHolder(4711, "python prepare.py")}))
    assert (finding.code, finding.where, finding.confidence) == ("lock_wait", f"{TRAIN}:61 lock_cache", "high")
    assert finding.title == "Rank 2 waits for the lock of /data/cache.lock, which process 4711: python prepare.py holds"
    assert "traindbg stacks 4711" in finding.next_steps[0]
    gone = only(judged(*OTHERS, waits, lock_holders={1002: LockHolder(4711, "")}))
    assert "fuser -v /data/cache.lock" in gone.next_steps[0], "nobody is told to stop what has ended"
    unknown = only(judged(*OTHERS, waits))
    assert (unknown.confidence, "fuser -v /data/cache.lock" in unknown.next_steps[0]) == ("medium", True)


# --- sends and receives --------------------------------------------------------------------------------------------


def receiving(number: int, peer: int) -> RankEvidence:
    recv = (Frame(f"{TORCH}/distributed/distributed_c10d.py", 2500, "recv", library=True), *user(70, "pipeline"))
    return rank(number, [dataclasses.replace(thread(recv, Wait("peer", "recv")), peer=peer)])


def test_a_ring_in_which_all_receive_first() -> None:
    finding = only(judged(*(receiving(n, (n - 1) % 4) for n in range(4))))
    assert (finding.code, finding.where) == ("collective_order", f"{TRAIN}:70 pipeline")
    assert list(finding.who) == ["rank 0", "rank 1", "rank 2", "rank 3"]


def test_the_rank_that_never_sent_is_blamed_for_the_whole_chain() -> None:
    finding = only(judged(receiving(0, 1), receiving(1, 2), waiting(2, "barrier"), waiting(3, "barrier")))
    assert (finding.code, list(finding.who)) == ("collective_not_issued", ["rank 2"])
    assert "has not sent what rank 1 waits for" in finding.title


def test_a_chain_that_ends_at_a_rank_with_a_cause_of_its_own_is_evidence_of_that() -> None:
    finding = only(judged(receiving(0, 1), receiving(1, 2), SLEEP, waiting(3)))
    assert (finding.code, list(finding.who)) == ("python_wait", ["rank 2"])


# --- NCCL's own service --------------------------------------------------------------------------------------------


def ras(**of_rank_2: Any) -> RasReport:
    def one(number: int) -> RasRank:
        known: dict[str, Any] = {"state": "running", "counts": {"AllReduce": 21}}
        return RasRank(number, "node-1", 1000 + number, **(known | (of_rank_2 if number == 2 else {})))

    return RasReport("2.28.3", (RasCommunicator("0xabc", 4, tuple(one(n) for n in range(4))),))


def test_a_rank_that_nccl_has_lost_is_named_although_we_cannot_see_it() -> None:
    away = RankEvidence(2, 4, 0, 0, "", activity=NotAvailable("it runs on another host"))
    finding = judged(*OTHERS, away, ras=ras(state="dead")).findings[0]
    assert (finding.code, list(finding.who)) == ("rank_ended", ["rank 2"])
    behind = judged(*OTHERS, away, ras=ras(counts={"AllReduce": 20})).findings[0]
    assert (behind.code, list(behind.who)) == ("collective_not_issued", ["rank 2"])
    assert judged(*(stepping(n) for n in range(4)), ras=ras(counts={"AllReduce": 20})).findings == ()


# --- the DataLoader ------------------------------------------------------------------------------------------------

NEXT = Wait("loader")


def loading(*workers: tuple[int, object], **more: object) -> RankEvidence:
    return stuck(2, LOADER, NEXT, workers=workers, **more)  # type: ignore[arg-type]


def test_the_worker_that_is_stuck_is_named_with_its_file_and_line() -> None:
    bad, idle = thread(WORKER, Wait("file", "read", "/mnt/nfs/shard-7")), thread(IDLE_WORKER, Wait("idle", "indices"))
    finding = only(
        judged(*OTHERS, loading((2001, idle), (2002, bad)), sources=source(17, "return f.read()", file=DATA))
    )
    assert (finding.code, list(finding.who)) == ("dataloader_worker_stuck", ["rank 2", "worker 2002"])
    assert finding.where == f"{DATA}:17 Shards.__getitem__"
    said = " ".join(finding.evidence)
    assert "/mnt/nfs/shard-7" in said
    assert "return f.read()" in said
    assert "2001" in said
    assert "all_reduce #21" in said


def test_a_worker_whose_lock_was_taken_at_the_fork() -> None:
    lines = source(17, "with LOCK:", takes=["LOCK"], file=DATA) | source(8, "sleep(600)", within=["LOCK"], file=DATA)
    cache = thread((Frame(DATA, 8, "write_cache"),), Wait("sleep"), name="cache", tid=7)
    rank_ = rank(2, [thread(LOADER, NEXT), cache], workers=[(2001, thread(WORKER, Wait("native")))])
    finding = only(judged(*OTHERS, rank_, sources=lines))
    assert finding.code == "dataloader_worker_stuck"
    assert "forked with" in " ".join(finding.evidence)
    assert "thread cache holds LOCK" in " ".join(finding.evidence)


def test_a_stopped_worker() -> None:
    loads = loading((2001, thread(WORKER)))
    loads = dataclasses.replace(loads, children=(activity(2001, state="T", role="DataLoader worker"),))
    finding = only(judged(*OTHERS, loads))
    assert (finding.code, "kill -CONT 2001" in finding.next_steps[0]) == ("dataloader_worker_stuck", True)


def test_a_slow_worker_is_a_warning_that_names_it_and_idle_ones_mean_a_lost_batch() -> None:
    slow = only(judged(*OTHERS, loading((2001, thread(WORKER)))))
    assert (slow.code, slow.severity, slow.where) == ("dataloader_wait", "warning", f"{DATA}:17 Shards.__getitem__")
    lost = only(judged(*OTHERS, loading((2001, thread(IDLE_WORKER, Wait("idle", "indices"))))))
    assert (lost.code, lost.severity) == ("dataloader_wait", "critical")
    assert "nobody's hands" in lost.evidence[0]


# --- ended ---------------------------------------------------------------------------------------------------------


def test_a_rank_that_died_of_an_exception() -> None:
    log = [
        "Traceback (most recent call last):",
        f'  File "{TRAIN}", line 90, in main',
        f'  File "{TORCH}/nn/modules/linear.py", line 134, in forward',
        "[rank2]: ValueError: Sample 4711 has no label",
    ]
    found = judged(*OTHERS, ended(2, exit_code=1, last_lines=log, log="/tmp/2.log"))
    finding = only(found)
    assert (found.state, finding.code, finding.where) == ("failed", "rank_ended", f"{TRAIN}:90 main")
    assert "ValueError: Sample 4711 has no label" in finding.title
    assert any("all_reduce #21" in line for line in finding.evidence)


def test_what_the_last_lines_of_a_dead_rank_show_is_its_cause_and_the_way_on() -> None:
    """As `traindbg diagnose LOG` would say it; not where a signal came from outside."""
    log = [f'  File "{TRAIN}", line 90, in main', "[rank2]: RuntimeError: Expected to have finished reduction"]
    known = Finding("rank_desync", "critical", "2 got no gradient", cause="2 took no part.", next_steps=["Freeze it."])
    finding = only(judged(*OTHERS, ended(2, exit_code=1, last_lines=log, failure=known)))
    assert (finding.code, finding.cause, finding.next_steps[0]) == ("rank_ended", "2 took no part.", "Freeze it.")
    assert "its last lines show: 2 got no gradient" in finding.evidence
    assert any("checkpoint" in step for step in finding.next_steps), "and the others can be saved"
    killed = only(judged(*OTHERS, ended(2, signal="SIGKILL", last_lines=log, failure=known)))
    assert "Somebody killed it outright" in killed.cause


def test_where_all_lost_a_peer_the_one_of_which_nothing_is_known_is_to_blame() -> None:
    unknown = NotAvailable("only its launcher was told")
    lost = [f'  File "{TRAIN}", line 90, in main', "[rank0]: RuntimeError: Connection closed by peer [127.0.0.1]:4007."]
    gave_up = [ended(n, exit_code=unknown, signal=unknown, last_lines=lost) for n in (0, 1, 3)]
    finding = only(judged(*gave_up, ended(2, exit_code=unknown, signal=unknown)))
    assert (finding.code, list(finding.who), finding.confidence) == ("rank_ended", ["rank 2"], "medium")
    assert "ranks 0, 1, 3: lost the connection to a rank that had ended" in finding.evidence


def test_the_oom_killer_is_named_and_those_that_the_launcher_ended_are_no_cause() -> None:
    killed = [ended(n, signal="SIGTERM") for n in (0, 3)]
    found = judged(
        killed[0],
        ended(1, signal="SIGKILL", out_of_memory=True, evidence=["dmesg: Killed process 1001"]),
        waiting(2),
        killed[1],
    )
    finding = only(found)
    assert (finding.code, list(finding.who)) == ("rank_ended", ["rank 1"])
    assert "out of memory" in finding.title
    assert "dmesg: Killed process 1001" in finding.evidence[0]
    assert any("ranks 0, 3" in line for line in finding.evidence)


def test_exit_status_0_while_others_wait_is_a_finding_and_after_all_is_done_none() -> None:
    left = only(judged(*OTHERS, ended(2, exit_code=0)))
    assert (left.code, list(left.who)) == ("rank_ended", ["rank 2"])
    assert judged(*(ended(n, exit_code=0) for n in range(4))).findings == ()


def test_who_left_with_exit_status_0_is_the_root_where_the_rest_polls() -> None:
    poll = [stuck(n, user(61, "wait_for_index"), Wait("sleep")) for n in (0, 1, 3)]
    left = only(judged(*poll, ended(2, exit_code=0)))
    assert (left.code, left.who, left.where, left.confidence) == ("rank_ended", ("rank 2",), None, "medium")
    assert "ranks 0, 1, 3 sleep at train.py:61 wait_for_index" in left.title
    one = [stuck(0, user(61, "upload"), Wait("sleep")), *(ended(n, exit_code=0) for n in (1, 2, 3))]
    assert only(judged(*one)).code == "python_wait", "most are through, and it is not"
    server = [stuck(n, user(61, "upload"), Wait("network")) for n in (0, 1, 3)]
    assert judged(*server, ended(2, exit_code=0)).findings[0].code == "io_wait"


RAISED = ["Traceback (most recent call last):", f'  File "{TRAIN}", line 90, in main', "    x", "ValueError: no label"]
CAUGHT = [*RAISED, "retrying", *(f"step {n} loss 0.1" for n in range(10))]


def alone(**how: Any) -> RankEvidence:
    return dataclasses.replace(ended(0, **how), world_size=1)


def test_a_job_of_one_process_has_no_others_to_speak_of() -> None:
    found = judged(alone(signal="SIGKILL"), world_size=1)
    finding = only(found)
    assert (found.state, finding.title) == ("failed", "The training process ended: killed by SIGKILL")
    raised = only(judged(alone(exit_code=1, last_lines=["ValueError: no label"], log="/tmp/a.log"), world_size=1))
    assert raised.title == "The training process ended: ValueError: no label"
    assert raised.cause == "An exception that nothing caught ended it."
    assert raised.next_steps[0].startswith("`traindbg diagnose /tmp/a.log`")
    left = only(judged(alone(exit_code=3), world_size=1))
    assert (left.title, left.cause[:19]) == ("The training process ended: exit status 3", "It ended by itself:")
    starved = only(judged(alone(signal="SIGKILL", out_of_memory=True), world_size=1))
    for one in (finding, raised, left, starved):
        words = " ".join([one.title, one.cause, *one.evidence, *one.next_steps])
        assert "other" not in words, words


def test_a_job_that_has_ended_and_of_which_nobody_tells_how_may_have_finished() -> None:
    unknown = NotAvailable("only its launcher was told")
    found = judged(alone(exit_code=unknown, signal=unknown, last_lines=["saved 3.pt"], log="/tmp/a.log"), world_size=1)
    finding = only(found)
    assert (found.state, finding.severity, finding.confidence) == ("ended", "warning", "low")
    assert "how is not known" in finding.title
    assert any("saved 3.pt" in line for line in finding.evidence)
    for last_lines, code in (
        (CAUGHT, "warning"),
        (RAISED, "critical"),
        ([*RAISED, "wandb: synced", "bye"], "critical"),
    ):
        nobody = alone(exit_code=unknown, signal=unknown, last_lines=last_lines)
        assert only(judged(nobody, world_size=1)).severity == code, last_lines
    done = judged(alone(exit_code=0), world_size=1)
    assert (done.state, done.findings, done.undecided) == ("ended", (), None)


def test_a_rank_that_lost_its_peer_is_not_the_root() -> None:
    lost = "RuntimeError: [../gloo/transport/tcp/pair.cc:537] Read error [127.0.0.1]:4007: Connection reset by peer."
    gave_up = ended(0, exit_code=1, last_lines=[lost])
    finding = only(judged(gave_up, ended(1, signal="SIGKILL")))
    assert list(finding.who) == ["rank 1"]
    assert "rank 0: lost the connection to a rank that had ended" in finding.evidence
    assert list(only(judged(gave_up, ended(1, exit_code=0))).who) == ["rank 0"], "where it is all that is known"
    unknown = NotAvailable("only its launcher was told")
    nobody = [ended(n, exit_code=unknown, signal=unknown) for n in (0, 1, 2)]
    found = judged(*nobody, ended(3, signal="SIGTERM"))
    assert (found.state, list(only(found).who)) == ("failed", ["rank 3"]), "a signal is no end of one's own accord"


def test_ranks_that_close_their_groups_while_others_have_left_are_at_their_end() -> None:
    closing = rank(
        0,
        [
            thread(
                (Frame(f"{TORCH}/distributed/distributed_c10d.py", 2300, "destroy_process_group", True), MAIN),
                Wait("teardown"),
            )
        ],
    )
    assert judged(closing, *(ended(n, exit_code=0) for n in (1, 2, 3))).findings == ()


def test_a_process_that_has_finished_and_cannot_end() -> None:
    joins = Frame(f"{STD}/threading.py", 1590, "_shutdown", library=True)
    logs = thread(
        (Frame(f"{STD}/queue.py", 171, "get", library=True), Frame(TRAIN, 8, "write_logs")),
        Wait("queue"),
        name="logs",
        tid=7,
    )
    last = rank(2, [thread((joins,), Wait("thread", "join")), logs])
    finding = only(judged(*(ended(n, exit_code=0) for n in (0, 1, 3)), last))
    assert (finding.code, finding.where, list(finding.who)) == ("python_wait", f"{TRAIN}:8 write_logs", ["rank 2"])
    assert "cannot end" in finding.title


def test_workers_that_are_starting_are_no_finding() -> None:
    ranks = [
        dataclasses.replace(loading((2001, thread(WORKER))), rank=0, pid=1002, collectives=NotAvailable("no group yet"))
    ]
    assert judged(*ranks).findings == ()


# --- Ray ------------------------------------------------------------------------------------------------------------

GET = (
    Frame("/opt/venv/lib/python3.11/site-packages/ray/_private/worker.py", 2810, "get", library=True),
    *user(25, "main"),
)
INIT = (
    Frame("/opt/venv/lib/python3.11/site-packages/ray/_private/worker.py", 1900, "init", library=True),
    *user(3, "main"),
)
ALONE: dict[str, Any] = {"collectives": NotAvailable("none"), "pace": NotAvailable("no step")}


def test_a_process_that_waits_for_ray_alone_is_not_known_to_be_stuck() -> None:
    found = running.diagnose(job(stuck(0, GET, Wait("ray"), **ALONE), world_size=1))
    assert (found.state, found.findings) == ("not known", ())
    assert "`traindbg diagnose ray:auto` asks them" in found.why[-1]


def test_a_process_that_joins_ray_is_not_known_to_be_stuck() -> None:
    found = running.diagnose(job(stuck(0, INIT, Wait("sleep"), **ALONE), world_size=1))
    assert (found.state, found.findings) == ("not known", ())
    assert "ray.init(), which may take a minute" in found.why[-1]
    assert found.ranks[0].doing == "starting Ray, or joining its cluster"


def test_a_rank_that_waits_for_ray_while_others_wait_for_it_is_to_blame() -> None:
    found = judged(*OTHERS, stuck(2, GET, Wait("ray")))
    assert (found.state, [f.code for f in found.findings], found.findings[0].who) == (
        "stuck",
        ["python_wait"],
        ("rank 2",),
    )


def test_a_wait_for_ray_that_lasts_longer_than_ever_before_is_a_finding() -> None:
    pace = Pace(90, 90, 40.0, 0.1, (0.1, 0.11, 0.12, 0.1))
    found = running.diagnose(job(stuck(0, GET, Wait("ray"), **{**ALONE, "pace": pace}), world_size=1))
    assert (found.state, [f.code for f in found.findings]) == ("stuck", ["python_wait"])
