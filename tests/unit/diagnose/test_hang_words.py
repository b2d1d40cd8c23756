"""Every verdict on a hang, in both languages: what it has to have, and that no sentence is left in the other one."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest
from cases import each
from hang_evidence import (
    DATA,
    LOADER,
    STD,
    WORKER,
    activity,
    computing,
    ended,
    host,
    job,
    rank,
    source,
    stuck,
    thread,
    user,
    waiting,
)

from jupyter_traindbg.diagnose import running
from jupyter_traindbg.model import Frame, JobEvidence, LockHolder, NotAvailable, RankEvidence, ThreadActivity, Wait

OTHERS = (waiting(0), waiting(1), waiting(3))
NEXT = Wait("loader")
LOCKS = source(10, "with self.files:", takes=["self.files"], within=["self.state"]) | source(
    20, "with self.state:", takes=["self.state"], within=["self.files"]
)


def beside(one: RankEvidence, **more: object) -> JobEvidence:
    return job(*OTHERS, one, **more)  # type: ignore[arg-type]


def loading(words: str | None, frames: Sequence[Frame] = WORKER) -> RankEvidence:
    return stuck(2, LOADER, NEXT, workers=[(2001, thread(frames, words))])


def in_kernel(state: str, **more: object) -> RankEvidence:
    main = ThreadActivity(
        1002, "python", state, 0.0, 0, wchan=str(more.pop("wchan", "nfs_wait")), call="read", on="/mnt/x"
    )
    return stuck(2, user(44, "main"), None, activity=activity(1002, state=state, threads=[main], **more))


def in_threads(frames: Sequence[Frame]) -> RankEvidence:
    cleaner = thread(frames, Wait("native"), name="cleaner", tid=7)
    return rank(2, [thread(user(10, "save"), Wait("native")), cleaner])


HELD = rank(
    2,
    [thread(user(55, "clean"), state="waiting", holds_gil=True)],
    source="py-spy",
    problem="C code holds the GIL",
    shut_out=True,
    collectives=NotAvailable("no agent"),
)
SHUTDOWN = Frame(f"{STD}/threading.py", 1590, "_shutdown", library=True)
CASES: dict[str, JobEvidence] = {
    "sleeps": beside(stuck(2, user(61, "f"), Wait("sleep"))),
    "asks": beside(stuck(2, user(61, "f"), Wait("terminal", "read"))),
    "queue": beside(stuck(2, user(61, "f"), Wait("queue"))),
    "child": beside(stuck(2, user(61, "f"), Wait("child", "program"))),
    "event": beside(stuck(2, user(61, "f"), Wait("thread"))),
    "future": beside(stuck(2, user(61, "f"), Wait("future"))),
    "other process": beside(stuck(2, user(61, "f"), Wait("process", "result"))),
    "native": beside(stuck(2, user(61, "f"), Wait("native"))),
    "unknown": beside(rank(2, [thread(user(61, "f"), state="waiting")])),
    "file": beside(stuck(2, user(61, "f"), Wait("file", "read", "/mnt/x"))),
    "network": beside(stuck(2, user(61, "f"), Wait("network", "read"))),
    "pipe": beside(stuck(2, user(61, "f"), Wait("pipe", "write"))),
    "device": beside(stuck(2, user(61, "f"), Wait("device", on="/dev/nvidia0"))),
    "gpu": beside(stuck(2, user(61, "f"), Wait("gpu", "synchronize"), collectives=NotAvailable("none"))),
    "ray": beside(stuck(2, user(61, "f"), Wait("ray"))),
    "file lock": beside(
        stuck(2, user(61, "f"), Wait("lock", "file", "/x")), lock_holders={1002: LockHolder(7, "python")}
    ),
    "file lock of nobody": beside(stuck(2, user(61, "f"), Wait("lock", "file", "/x"))),
    "lock": beside(in_threads((Frame(DATA, 5, "run"),)), sources=LOCKS),
    "deadlock": beside(in_threads((Frame(DATA.replace("data", "train"), 20, "clean"),)), sources=LOCKS),
    "stopped": beside(in_kernel("T")),
    "traced": beside(in_kernel("t", traced_by=4711)),
    "frozen": beside(in_kernel("D", wchan="do_freezer_trap")),
    "uninterruptible": beside(in_kernel("D")),
    "swapping": beside(
        dataclasses.replace(computing(2), activity=activity(1002, cpu=0.2, major_faults_per_s=900.0, swap_bytes=2**31))
    ),
    "gil": beside(HELD),
    "tokenising": beside(computing(2)),
    "worker file": beside(loading(Wait("file", "open"))),
    "worker lock": beside(loading(Wait("lock"))),
    "worker busy": beside(loading(None)),
    "worker idle": beside(loading(Wait("idle", "indices"), WORKER[1:])),
    "no worker": beside(stuck(2, LOADER, NEXT)),
    "killed": beside(ended(2, signal="SIGKILL", last_lines=["step 3"], log="/tmp/2.log")),
    "out of memory": beside(ended(2, signal="SIGKILL", out_of_memory=True)),
    "segfault": beside(ended(2, signal="SIGSEGV")),
    "bus": beside(ended(2, signal="SIGBUS")),
    "raised": beside(ended(2, exit_code=1, last_lines=["ValueError: no label"])),
    "left": beside(ended(2, exit_code=0)),
    "gone": beside(ended(2)),
    "cannot end": job(ended(0, exit_code=0), rank(1, [thread((SHUTDOWN,), Wait("thread", "join"))])),
    "full": beside(stuck(2, user(61, "f"), Wait("sleep")), hosts=(host(shm_free_bytes=0, disk_free_bytes={"/": 0}),)),
    "unexplained": job(*(waiting(n, collectives=NotAvailable("torch is too old")) for n in range(4))),
    "nobody is late": job(*(waiting(n) for n in range(4))),
}


@each("language", ["en", "zh"])
@each("name", CASES)
def test_a_verdict_has_all_its_parts_in_the_language_asked_for(
    monkeypatch: pytest.MonkeyPatch, name: str, language: str
) -> None:
    monkeypatch.setenv("TRAINDBG_LANG", language)
    found = running.diagnose(CASES[name])
    assert found.findings
    assert found.why
    for finding in found.findings:
        assert finding.evidence, finding.code
        assert finding.cause, finding.code
        assert finding.next_steps, finding.code
        assert "\n" not in finding.title
        assert len(finding.title) < 200
        told = [finding.title, finding.cause, *finding.next_steps, *finding.evidence, *found.why]
        foreign = [t for t in told if (language == "zh") != any("\u4e00" <= c <= "\u9fff" for c in t)]
        assert foreign == []


@each("name", CASES)
def test_whom_a_verdict_blames_is_in_the_job(name: str) -> None:
    numbers = {f"rank {r.rank}" for r in CASES[name].ranks}
    for finding in running.diagnose(CASES[name]).findings:
        assert {w for w in finding.who if w.startswith("rank ")} <= numbers
