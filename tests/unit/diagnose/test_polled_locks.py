"""Ranks that sleep and look again: for a lock file that somebody holds, for a file that does not come, by the variables at that line."""

from __future__ import annotations

import dataclasses
from typing import Any

from hang_evidence import TORCH, TRAIN, activity, computing, ended, job, stuck, user, waiting
from standing import value

from jupyter_traindbg.diagnose.running import diagnose
from jupyter_traindbg.model import (
    Activity,
    Diagnosis,
    Frame,
    LockHolder,
    PolledFile,
    RankEvidence,
    Value,
    Variable,
    Wait,
)

PATH = "/data/cache.lock"
SLEEPS = user(32, "acquire")


def polling(number: int, file: PolledFile, **more: Any) -> RankEvidence:
    return stuck(number, SLEEPS, Wait("sleep"), polled=(file,), **more)


def held(pid: int, command: str = "python train.py", how: Any = "written") -> PolledFile:
    return PolledFile(PATH, holder=LockHolder(pid, command), how=how)


def verdict(*ranks: RankEvidence) -> Diagnosis:
    return diagnose(job(*ranks, world_size=len(ranks)))


def test_a_rank_that_went_on_with_the_lock_is_blamed() -> None:
    found = verdict(polling(0, held(1002)), polling(1, held(1002)), waiting(2, "barrier"), polling(3, held(1002)))
    (finding,) = found.findings
    assert (found.state, finding.code, list(finding.who), finding.confidence) == (
        "stuck",
        "lock_wait",
        ["rank 2"],
        "high",
    )
    assert finding.title == f"Rank 2 holds the lock file {PATH}, for which ranks 0, 1, 3 wait at train.py:32 acquire"
    assert finding.where == f"{TRAIN}:42 train_step"
    assert finding.evidence[0] == f"{PATH} has the pid of rank 2 written in it"
    assert "without giving it back" in finding.cause
    assert verdict(polling(0, held(1001, how="open")), waiting(1)).findings[0].confidence == "medium"


def on(host: str, rank: RankEvidence, pid: int) -> RankEvidence:
    """The rank as another host numbers its processes."""
    looks = tuple(
        dataclasses.replace(look, processes=tuple(dataclasses.replace(p, pid=pid) for p in look.processes))
        for look in rank.looks
    )
    return dataclasses.replace(rank, host=host, pid=pid, looks=looks)


def test_a_lock_on_a_shared_disk_is_followed_to_the_host_of_its_holder() -> None:
    """Both hosts have a process 9. Alpha's looks for the lock itself, so the pid in the file is not its own; beta knows who made it."""
    not_known, known = PolledFile(PATH, ident=(5, 1)), dataclasses.replace(held(9), ident=(5, 1))
    keeper = on("beta", waiting(2, "barrier"), 9)
    for alphas in (not_known, known):
        first = verdict(
            on("alpha", polling(0, alphas), 9),
            on("alpha", polling(1, alphas), 10),
            keeper,
            on("beta", polling(3, known), 10),
        ).findings[0]
        assert (first.code, list(first.who)) == ("lock_wait", ["rank 2"]), alphas
        assert "for which ranks 0, 1, 3 wait" in first.title
        assert "rank 2 is process 9 on beta" in first.evidence


def test_a_file_of_the_same_name_on_another_host_is_another_one() -> None:
    alphas, betas = PolledFile(PATH, ident=(5, 1)), dataclasses.replace(held(9), ident=(6, 1))
    told = verdict(
        on("alpha", polling(0, alphas), 9), on("alpha", waiting(1, "barrier"), 10),
        on("beta", waiting(2, "barrier"), 9), on("beta", polling(3, betas), 10),
    ).findings  # fmt: skip
    (locked,) = (one for one in told if one.code == "lock_wait")
    assert "for which rank 3 waits" in locked.title


def test_a_holder_that_waits_for_a_program_of_its_own_is_followed_there() -> None:
    """A compiler, say, that waits for a licence while the rank holds the lock of a cache."""
    gxx = Activity(77, "child", "sh /tools/g++ -o a.so", 1.5, "S", 0.0, (), parent_pid=1002, running_s=30.0)
    calls = Frame("/usr/lib/python3.11/subprocess.py", 1200, "Popen.communicate", library=True)
    keeper = stuck(2, (calls, *user(55, "train")), Wait("child", "program"), children=(gxx,))
    (finding,) = verdict(polling(0, held(1002, how="locked")), polling(1, held(1002, how="locked")), keeper).findings
    assert finding.title.startswith(f"Rank 2 holds the lock file {PATH}")
    assert "Rank 2 has the lock and does not get on itself: it waits for a subprocess to end" in finding.cause
    assert "and process 77 below it" in finding.cause
    assert any("process 77 (`sh /tools/g++ -o a.so`)" in line for line in finding.evidence)
    assert "traindbg stacks 77" in finding.next_steps[0]


def test_a_holder_outside_of_the_job_is_named() -> None:
    (finding,) = verdict(polling(0, held(4711, "python prepare.py", "locked")), waiting(1)).findings
    assert list(finding.who) == ["rank 0", "pid 4711"]
    assert finding.title == f"Rank 0 waits for the lock file {PATH}, which process 4711: python prepare.py holds"
    assert "traindbg stacks 4711" in finding.next_steps[0]


def test_a_holder_that_has_ended_left_it_behind() -> None:
    (finding,) = verdict(polling(0, held(4711, "")), waiting(1)).findings
    assert "has ended without removing it" in finding.cause
    assert "Removing" in finding.next_steps[-1]
    assert not any("kill 4711" in step for step in finding.next_steps)
    found = verdict(polling(0, held(1001)), ended(1))
    assert "has ended without removing it" in next(f for f in found.findings if f.code == "lock_wait").cause


def test_where_the_holder_works_or_is_stuck_itself_that_is_what_is_said() -> None:
    working = verdict(polling(0, held(1001)), computing(1), waiting(2))
    assert [f.code for f in working.findings] == ["cpu_phase"]
    asleep = verdict(polling(0, held(1001)), stuck(1, user(70, "upload"), Wait("network", "read")), waiting(2))
    assert [(f.code, list(f.who)) for f in asleep.findings] == [("lock_wait", ["rank 1"])]
    assert asleep.findings[0].where == f"{TRAIN}:70 upload"
    assert "does not get on itself: it waits for data from a socket at train.py:70 upload" in asleep.findings[0].cause


def test_who_looks_for_a_file_while_a_rank_works_waits_for_that_rank() -> None:
    missing = PolledFile("/data/index.json", there=False)
    found = verdict(polling(0, missing), computing(1), polling(2, missing), polling(3, PolledFile("/data")))
    (finding,) = found.findings
    assert (found.state, finding.code, list(finding.who)) == ("progressing", "cpu_phase", ["rank 1"])
    assert "ranks 0, 2, 3 sleep, at train.py:32 acquire" in finding.evidence
    assert "/data/index.json does not exist, as rank 0 sees it" in finding.evidence
    assert "look now and then" in finding.cause
    assert "init_process_group" not in " ".join(finding.next_steps)
    with_victims = verdict(polling(0, missing), computing(1), waiting(2)).findings[0]
    assert (with_victims.code, list(with_victims.who)) == ("cpu_phase", ["rank 1"])
    assert "init_process_group" in with_victims.next_steps[-1]
    still = verdict(polling(0, missing), waiting(1), waiting(2))
    assert [(f.code, list(f.who)) for f in still.findings] == [("python_wait", ["rank 0"])]


def test_who_asks_a_store_while_a_rank_works_waits_for_that_rank() -> None:
    store = Variable("store", "meet", SLEEPS, Value("store", "TCPStore", "TCPStore, 'vocabulary'"))
    asking = stuck(0, SLEEPS, Wait("sleep"), looks_at=(store,))
    blocked = stuck(2, user(40, "load"), Wait("store", "wait", "vocabulary"))
    found = verdict(asking, computing(1), blocked)
    assert (found.state, [(f.code, list(f.who)) for f in found.findings]) == (
        "progressing",
        [("cpu_phase", ["rank 1"])],
    )
    assert "rank 0 goes by store = TCPStore, 'vocabulary' there" in found.findings[0].evidence


def test_a_lock_that_the_kernel_knows_is_not_let_go_by_removing_its_file() -> None:
    (finding,) = verdict(
        polling(0, held(1001, how="locked")), waiting(1), polling(2, held(1001, how="locked"))
    ).findings
    assert finding.next_steps[-1] == "The kernel gives the lock back as soon as rank 1 closes the file, or ends."


def test_what_a_polling_line_goes_by_is_evidence() -> None:
    here = Frame(TRAIN, 32, "acquire")
    seen = [
        Variable("pending", "acquire", here, value({"uid-17": 1})),
        Variable("timeout", "acquire", here, value(None)),
    ]
    (finding,) = verdict(stuck(0, SLEEPS, Wait("sleep"), looks_at=seen), waiting(1)).findings
    assert finding.code == "python_wait"
    assert "rank 0 goes by pending = {'uid-17': 1}, timeout = None there" in finding.evidence


def test_a_file_that_does_not_come_is_said_to_be_missing() -> None:
    (finding,) = verdict(polling(0, PolledFile("/data/ready", there=False)), waiting(1)).findings
    assert "/data/ready does not exist, as rank 0 sees it" in finding.evidence


def test_a_store_that_lacks_a_key_names_it() -> None:
    (finding,) = verdict(stuck(0, SLEEPS, Wait("store", "wait", "epoch-5")), waiting(1)).findings
    assert finding.code == "python_wait"
    assert finding.title.startswith("Rank 0 waits for the key epoch-5 of the process group's store")
    assert "No rank has set that key" in finding.cause


def test_a_secret_is_not_shown() -> None:
    seen = [Variable("api_key", "acquire", Frame(TRAIN, 32, "acquire"), Value("hidden", "str"))]
    (finding,) = verdict(stuck(0, SLEEPS, Wait("sleep"), looks_at=seen), waiting(1)).findings
    assert "rank 0 goes by api_key = a secret, not shown there" in finding.evidence


BATON = Frame(f"{TORCH}/utils/file_baton.py", 58, "FileBaton.wait", library=True)


def alone(file: PolledFile, **more: Any) -> RankEvidence:
    return stuck(0, (BATON, *user(41, "setup")), Wait("lock", "lock_file"), polled=(file,), **more)


def test_a_lock_file_that_nobody_is_known_to_hold_is_named_with_its_age() -> None:
    """A build of torch's that was killed leaves such a file."""
    (finding,) = verdict(alone(PolledFile("/cache/my ext/lock", age_s=90.0)), waiting(1)).findings
    assert (finding.code, finding.severity, list(finding.who)) == ("lock_wait", "critical", ["rank 0"])
    assert finding.title == "Rank 0 waits for the lock file /cache/my ext/lock, which nobody here holds"
    assert "/cache/my ext/lock was written 1 min 30 s ago" in finding.evidence
    assert finding.next_steps[0].endswith("rm '/cache/my ext/lock'")
    assert finding.confidence == "medium"


def test_one_that_is_older_than_the_job_was_left_behind() -> None:
    file, job_is = PolledFile(PATH, age_s=9000.0), activity(1000, running_s=600.0)
    (finding,) = verdict(alone(file, activity=job_is), waiting(1)).findings
    assert f"{PATH} was written 2 h 30 min ago, before rank 0 began" in finding.evidence
    assert finding.confidence == "high"
    both = (alone(file, activity=job_is), dataclasses.replace(alone(file), rank=1), waiting(2))
    (finding,) = verdict(*both).findings
    assert finding.title == f"Ranks 0, 1 wait for the lock file {PATH}, which nobody here holds"
    assert finding.evidence[0] == "ranks 0, 1 wait for a lock file at train.py:41 setup"


def test_of_a_lock_whose_file_is_not_known_the_owner_is_to_be_found() -> None:
    (finding,) = verdict(alone(PolledFile(PATH, there=False)), waiting(1)).findings
    assert (finding.code, finding.title) == ("lock_wait", "Rank 0 waits for the lock of a file")


def test_a_database_has_a_lock_and_is_none() -> None:
    file = dataclasses.replace(held(4711, "python sweep.py", "locked"), path="/data/rows.db")
    (finding,) = verdict(polling(0, file), waiting(1)).findings
    assert finding.title == "Rank 0 waits for the lock of /data/rows.db, which process 4711: python sweep.py holds"
