"""What works for a rank whose training thread waits: files that grow, programs and threads that compute; and what only looks like it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from cases import each
from hang_evidence import (
    ALL_REDUCE,
    LOADER,
    TRAIN,
    WINDOW_S,
    WORKER,
    activity,
    job,
    rank,
    records,
    stuck,
    thread,
    user,
    waiting,
)

from jupyter_traindbg.diagnose import running
from jupyter_traindbg.diagnose.hang import again
from jupyter_traindbg.model import (
    Activity,
    Change,
    Diagnosis,
    Frame,
    JobEvidence,
    NotAvailable,
    OpenFile,
    RankEvidence,
    SourceLine,
    Thread,
    ThreadActivity,
    Value,
    Variable,
    Wait,
)

MIB = 2**20
CKPT = OpenFile("/ckpt/step-100.pt", "write", 10 * MIB, 13 * MIB)
PLACE = "train.py:61 work"


def judged(*ranks: RankEvidence, **more: Any) -> Diagnosis:
    return running.diagnose(job(*ranks, waiting(1), waiting(2), waiting(3), **more))


def waits(words: str, *files: OpenFile, children: Sequence[Activity] = (), **more: Any) -> RankEvidence:
    """Rank 0 at one line at every look, without any CPU of its own."""
    return stuck(
        0,
        user(61, "work"),
        words,
        activity=activity(1000, files=files, **more),
        children=tuple(children),
    )


def program(pid: int = 4711, cpu: float = 0.95, *files: OpenFile, role: str = "child", **more: Any) -> Activity:
    found = activity(pid, cpu=cpu, role=role, files=files, **more)
    return dataclasses.replace(found, command="gzip -dc shard.gz")


WRITES = [
    Wait("sleep"),
    Wait("file", "write", "/ckpt/step-100.pt"),
    Wait("network"),
    Wait("thread", "join"),
    Wait("lock"),
]


@each("words", WRITES)
def test_a_checkpoint_that_grows_is_progress(words: str) -> None:
    found = judged(waits(words, CKPT))
    assert found.state == "progressing"
    assert [f.code for f in found.findings] in ([], ["cpu_phase"])
    assert "rank 0: /ckpt/step-100.pt grew by 3.0 MiB during the look" in found.why
    assert found.ranks[0].state == "computing"


def test_the_wait_for_it_is_a_warning_with_what_was_seen() -> None:
    (finding,) = judged(waits(Wait("sleep"), CKPT)).findings
    assert (finding.code, finding.severity) == ("cpu_phase", "warning")
    grew = "/ckpt/step-100.pt grew by 3.0 MiB during the look"
    assert list(finding.evidence[:2]) == [f"rank 0 sleeps at {PLACE}", grew]


NOTHING = {
    "it stands": dataclasses.replace(CKPT, position=CKPT.began),
    "a few bytes": dataclasses.replace(CKPT, position=CKPT.began + 100),
    "a log": OpenFile("/logs/train.log", "append", 0, MIB),
    "what a sleeper reads": OpenFile("/data/shard", "read", 0, MIB),
    "it was read from its beginning again": OpenFile("/data/shard", "write", MIB, 0),
}


@each("name", NOTHING)
def test_what_is_no_progress(name: str) -> None:
    found = judged(waits(Wait("sleep"), NOTHING[name]))
    assert (found.state, [f.code for f in found.findings]) == ("stuck", ["python_wait"])


def test_a_file_that_is_read_slowly_is_progress() -> None:
    shard = OpenFile("/data/shard", "read", 0, 80_000)
    assert judged(waits(Wait("file", "read", "/data/shard"), shard)).state == "progressing"
    assert "78 KiB of /data/shard were read during the look" in judged(waits(Wait("file", "read", "/x"), shard)).why[-1]
    assert judged(waits(Wait("file", "read", "/data/shard"))).state == "stuck"


def flushing(call: str, to_disk: int | None, words: Wait = Wait("file", "sync", "/ckpt/step-100.pt")) -> RankEvidence:
    main = ThreadActivity(1000, "python", "D", 0.0, 0, call=call, on=CKPT.path)
    done = dataclasses.replace(CKPT, began=CKPT.position, to_disk=to_disk)
    return waits(words, done, state="D", threads=(main,))


def test_what_reaches_the_disk_is_the_progress_of_who_waits_for_it() -> None:
    found = judged(flushing("fsync", 40 * MIB))
    assert (found.state, found.why[-1]) == (
        "progressing",
        "rank 0: 40.0 MiB reached the disk below /ckpt/step-100.pt during the look",
    )
    assert judged(flushing("fdatasync", 40 * MIB, Wait("future"))).state == "progressing"
    for nothing in (0, 1000, None):
        assert judged(flushing("fsync", nothing)).state == "stuck"
    assert judged(flushing("futex", 40 * MIB)).state == "stuck", "nobody waits for the disk"


CHILD_WAITS = [
    Wait("child", "program"),
    Wait("child"),
    Wait("pipe", "read"),
    Wait("process", "receive"),
    Wait("process", "result"),
    Wait("future"),
]


@each("words", CHILD_WAITS)
def test_a_program_that_computes_is_the_progress_of_who_waits_for_it(words: str) -> None:
    found = judged(waits(words, children=[program()]))
    assert found.state == "progressing", found
    assert "rank 0: process 4711 (`gzip -dc shard.gz`) below it uses 95% of a CPU" in found.why
    (finding,) = found.findings
    assert (finding.code, finding.severity, list(finding.who)) == ("cpu_phase", "warning", ["rank 0"])
    still = judged(waits(words, children=[program(cpu=0.0)]))
    assert (still.state, still.findings[0].code) in (("stuck", "python_wait"), ("stuck", "io_wait"))


def test_a_program_that_writes_or_reads_is_progress_too() -> None:
    assert judged(waits(Wait("child", "program"), children=[program(4711, 0.0, CKPT)])).state == "progressing"
    assert (
        judged(waits(Wait("child", "program"), children=[program(cpu=0.0, read_bytes_per_s=5e6)])).state
        == "progressing"
    )


def test_a_program_that_nobody_waits_for_is_of_no_account() -> None:
    """A monitor of the machine, say, beside a rank that waits for its server."""
    assert judged(waits(Wait("network"), children=[program()])).state == "stuck"
    assert judged(waits(Wait("child", "program"), children=[program(role="DataLoader worker")])).state == "stuck"


MAKE = {"ended_cpu_share": 0.6, "running_s": 31.0}


def test_who_sleeps_gets_on_where_a_program_does_that_was_started_since_the_job_stands_still() -> None:
    """``while make.poll() is None: time.sleep(2)``; the others have waited for 30 s."""
    building = waits(Wait("sleep"), children=[program(4711, 0.0, **MAKE)])
    found = judged(building)
    assert (found.state, found.why[-1]) == (
        "progressing",
        "rank 0: process 4711 (`gzip -dc shard.gz`) below it uses 60% of a CPU",
    )
    assert [f.code for f in found.findings] in ([], ["cpu_phase"])
    monitor = program(4711, 0.9, running_s=900.0)
    assert judged(waits(Wait("sleep"), children=[monitor])).state == "stuck", "it was there all along"
    done = program(4711, 0.0, running_s=31.0)
    assert judged(waits(Wait("sleep"), children=[done])).state == "stuck", "it does not get on either"


def test_what_the_children_used_that_came_and_went_is_their_parents_progress() -> None:
    assert judged(waits(Wait("child", "program"), children=[program(4711, 0.0, **MAKE)])).state == "progressing"


def test_a_file_that_is_written_in_place_moves_no_position() -> None:
    """``os.pwrite`` into a file of the full size."""
    preallocated = OpenFile("/ckpt/state.distcp", "write", 0, 0)
    found = judged(waits(Wait("sleep"), preallocated, written_bytes_per_s=50_000.0))
    assert found.state == "progressing"
    assert found.why[-1] == "rank 0: 73 KiB were written during the look, and /ckpt/state.distcp is open for that"
    assert judged(waits(Wait("sleep"), preallocated, written_bytes_per_s=20.0)).state == "stuck"
    assert judged(waits(Wait("sleep"), written_bytes_per_s=50_000.0)).state == "stuck", (
        "to its log, for all that is known"
    )


POLL = (
    thread(user(61, "work"), Wait("sleep")),
    thread((Frame("/home/ada/store.py", 7, "check"), *user(60, "work")), Wait("network")),
)


def polling(cpu_share: float, *looks: Thread) -> RankEvidence:
    own = (ThreadActivity(1000, "python", "S", cpu_share, 4),)
    return rank(0, [[one] for one in looks], activity=activity(1000, threads=own))


def test_a_loop_that_sleeps_and_looks_again_is_not_on_its_way() -> None:
    (finding,) = judged(polling(0.01, *POLL, POLL[1])).findings
    assert (finding.code, finding.where) == ("python_wait", "/home/ada/train.py:61 work")
    assert judged(polling(0.08, *POLL, POLL[1])).state == "progressing", "it computes in between"
    elsewhere = thread(user(75, "save"), Wait("network"))
    assert judged(polling(0.01, *POLL, elsewhere)).state == "progressing", "it has left the loop"


def in_threads(other: Thread, cpu: float, words: Wait = Wait("thread", "join")) -> RankEvidence:
    threads = [thread(user(61, "work"), words), other]
    seen = tuple(ThreadActivity(tid, "python", "S", share, 0) for tid, share in ((1000, 0.0), (7, cpu)))
    return rank(0, threads, activity=activity(1000, threads=seen))


def test_a_thread_with_code_of_the_user_that_computes_is_progress() -> None:
    writer = thread(user(5, "pack"), name="Writer", tid=7)
    found = judged(in_threads(writer, 0.8))
    assert (found.state, found.why[-1]) == ("progressing", "rank 0: its thread Writer uses 80% of a CPU")
    assert judged(in_threads(writer, 0.8, Wait("queue"))).state == "progressing"
    assert judged(in_threads(writer, 0.0)).state == "stuck"
    assert judged(in_threads(writer, 0.8, Wait("network"))).state == "stuck", "it waits for somebody else"
    library = thread(ALL_REDUCE[:1], name="tqdm", tid=7)
    assert judged(in_threads(library, 0.8)).state == "stuck", "a library's own thread may do anything"


def test_a_thread_or_a_program_works_for_an_event_loop_of_the_user() -> None:
    loop = Wait("idle", "events")
    assert judged(in_threads(thread(user(5, "pack"), name="Writer", tid=7), 0.8, loop)).state == "progressing"
    assert judged(waits(loop, children=[program()])).state == "progressing"
    (finding,) = judged(waits(loop)).findings
    assert finding.title == f"Rank 0 waits in an event loop at {PLACE} while the others wait"
    assert "coroutines" in finding.cause


def test_workers_that_load_are_progress_and_may_be_slow() -> None:
    """Where others wait, that is told; the job is slow, and not stuck."""
    loading = stuck(0, LOADER, Wait("loader"), workers=[(2001, thread(WORKER))])
    found = judged(loading)
    assert (found.state, [f.code for f in found.findings]) == ("slow", ["dataloader_wait"])
    alone = running.diagnose(job(dataclasses.replace(loading, collectives=NotAvailable("no group"), world_size=1)))
    assert (alone.state, alone.findings) == ("progressing", ())


def test_without_proc_nothing_is_known_to_work() -> None:
    found = judged(dataclasses.replace(waits(Wait("sleep"), CKPT), activity=NotAvailable("it is closed to this user")))
    assert found.state == "stuck"


def test_growth_between_two_looks_counts() -> None:
    """A file that is written now and then: at neither look alone, and yet from the first to the second."""
    first, second = (OpenFile("/ckpt/a.pt", "write", at, at) for at in (0, MIB))
    both = again.over_time(of(first), of(second), later_s=2 * WINDOW_S)
    assert both.ranks[0].activity.files[0].moved == MIB  # type: ignore[union-attr]
    assert running.diagnose(both).state == "progressing"
    larger = OpenFile("/ckpt/a.pt", "write", 0, 9 * MIB)
    anew = again.over_time(of(larger), of(dataclasses.replace(first, position=6000)), later_s=2 * WINDOW_S)
    assert anew.ranks[0].activity.files[0].moved == 6000, "it was opened again"  # type: ignore[union-attr]
    flushed = again.over_time(*(job(flushing("fsync", MIB * 3 // 4)) for _ in range(2)), later_s=2.0)
    assert flushed.ranks[0].activity.files[0].to_disk == MIB * 3 // 2  # type: ignore[union-attr]
    assert running.diagnose(of(first)).state == running.diagnose(of(second)).state == "stuck"
    copies = [job(waits(Wait("child", "program"), children=[program(4711, 0.0, f)])) for f in (first, second)]
    joined = again.over_time(*copies, later_s=1.0)
    assert joined.ranks[0].children[0].files[0].moved == MIB
    new = again.over_time(of(), copies[1], later_s=1.0)
    assert new.ranks[0].children[0].files[0].moved == 0


def of(*files: OpenFile) -> JobEvidence:
    return job(waits(Wait("sleep"), *files), waiting(1), waiting(2), waiting(3))


# --- loops that only ask, and what they go by ------------------------------------------------------------------------


def test_a_loop_that_only_asks_for_what_is_not_there_stands_still_however_often_it_does() -> None:
    empty = [dataclasses.replace(one, waiting_for=Wait("queue")) for one in POLL]
    asks = dataclasses.replace(polling(0.6, *empty, empty[1]), only_asks=True)
    (finding,) = judged(asks).findings
    assert (finding.code, finding.title) == (
        "python_wait",
        "Rank 0 waits for an item from a queue at train.py:61 work while the others wait",
    )
    assert judged(dataclasses.replace(asks, only_asks=False)).state == "progressing"


def test_what_a_sleeping_loop_goes_by_may_show_that_somebody_works() -> None:
    asleep = polling(0.0, POLL[0], POLL[0], POLL[0])
    done = Variable("done", "work", user(61, "work")[0], Value("plain", "int", plain=24))
    (finding,) = judged(dataclasses.replace(asleep, changed=(Change(done, Value("plain", "int", plain=20)),))).findings
    assert finding.code == "cpu_phase"
    assert "what it goes by there has changed meanwhile: done was 20, and is 24" in finding.evidence
    assert judged(asleep).state == "stuck"


def test_a_sleep_that_waits_for_the_gil_is_one() -> None:
    """Its stack ends in C code, and the line says what is called."""
    native = thread(user(61, "work"), Wait("native"))
    sources = {f"{TRAIN}:61": SourceLine("time.sleep(0.01)")}
    found = judged(polling(0.01, native, POLL[1], native), sources=sources)
    assert (found.state, found.findings[0].title) == (
        "stuck",
        "Rank 0 sleeps at train.py:61 work while the others wait",
    )


def test_who_waits_for_a_thread_of_its_own_is_held_up_by_what_that_waits_for() -> None:
    """Of two groups: the thread is in a call that the others come to later."""
    joins = thread(user(61, "work"), Wait("thread", "join"))
    in_a_call = thread(ALL_REDUCE, Wait("collective", "all_reduce"), name="reporter", tid=7)
    asleep = thread(user(70, "write"), Wait("sleep"), name="writer", tid=8)
    own = {"activity": activity(1000), "collectives": records(0, issued=19, waits="all_reduce")}
    codes = [f.code for f in judged(rank(0, [joins, in_a_call], **own)).findings]
    assert "python_wait" not in codes
    assert codes
    assert "python_wait" in [f.code for f in judged(rank(0, [joins, in_a_call, asleep], **own)).findings]
