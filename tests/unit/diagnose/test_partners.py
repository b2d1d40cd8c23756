"""For whom a rank waits outside of its job, and who waits for it in turn. From hand-made evidence."""

from __future__ import annotations

import dataclasses

from hang_evidence import TRAIN, computing, job, records, stuck, thread, user, waiting
from partner_evidence import (
    ASKING,
    ASKS,
    AT_IT,
    C10D,
    DATA,
    ENGINE,
    EVENTS,
    HANDLER,
    IN_A_BROADCAST,
    ITS,
    MINE,
    OTHERS,
    SERVE_FOREVER,
    SOCKET,
    channels,
    diagnosed,
    partner,
    stands,
    tcp,
)

from jupyter_traindbg.diagnose import running
from jupyter_traindbg.model import (
    Channel,
    Channels,
    Frame,
    Group,
    LockHolder,
    OpenFile,
    RankEvidence,
    SourceLine,
    Wait,
)


def test_a_process_that_stands_still_by_itself_is_the_place() -> None:
    engine = partner(70, stands((Frame(ENGINE, 12, "answer"),), Wait("sleep")), has=channels(ITS))
    found = diagnosed(engine, has=AT_IT, sources={f"{ENGINE}:12": SourceLine("time.sleep(60)")}).findings[0]
    assert (found.code, found.who, found.where) == ("io_wait", ("rank 2", "pid 70"), f"{ENGINE}:12 answer")
    assert (
        found.title
        == "Rank 2 waits for data from a socket at train.py:50 rollout, and process 70 (engine.py) sleeps at engine.py:12 answer"
    )
    way = f"rank 2 waits for process 70 (`/usr/bin/python3 /srv/engine.py --port 8000`) over {MINE}"
    assert f"{way}; that one sleeps at engine.py:12 answer: `time.sleep(60)`" in found.evidence
    assert found.confidence == "high"


def test_a_process_that_works_is_no_hang() -> None:
    engine = partner(70, stands((Frame(ENGINE, 12, "answer"),), None), cpu=0.9, has=channels(ITS))
    found = diagnosed(engine, has=AT_IT)
    assert (found.state, found.findings[0].code) == ("progressing", "cpu_phase")
    assert "for which it waits, uses 90% of a CPU" in " ".join(found.findings[0].evidence)


def test_one_that_reads_its_files_on_gets_on_too() -> None:
    loads = partner(70, stands((Frame(ENGINE, 12, "load"),), Wait("sleep")), has=channels(ITS))
    for moved, state in ((2**20, "progressing"), (100, "stuck")):
        read = dataclasses.replace(loads.activity, files=(OpenFile("/ckpt/model.bin", "read", 0, moved),))
        found = diagnosed(dataclasses.replace(loads, activity=read), has=AT_IT)
        assert found.state == state
    much = dataclasses.replace(loads.activity, read_bytes_per_s=5e7)  # of a file that it reads round and round
    assert diagnosed(dataclasses.replace(loads, activity=much), has=AT_IT).state == "progressing"
    log = dataclasses.replace(loads.activity, files=(OpenFile("/var/log/engine", "append", 0, 2**20),))
    assert diagnosed(dataclasses.replace(loads, activity=log), has=AT_IT).state == "stuck"


def test_one_that_is_stopped_is_to_be_continued() -> None:
    engine = partner(70, stands((Frame(ENGINE, 12, "answer"),), Wait("sleep")), state="T", has=channels(ITS))
    found = diagnosed(engine, has=AT_IT).findings[0]
    assert found.title.endswith("and process 70 (engine.py) is stopped by a signal at engine.py:12 answer")
    assert found.next_steps[0] == "Let it go on: kill -CONT 70"


def test_a_chain_is_followed_to_its_end() -> None:
    up, down = tcp(40002, 9000, 71), tcp(9000, 40002, 70)
    engine = partner(70, stands((Frame(ENGINE, 12, "answer"),), SOCKET), has=channels(ITS, up, at={70: up}))
    store = partner(71, stands((Frame(DATA, 7, "fetch"),), Wait("lock", "file")), has=channels(down))
    held = {71: LockHolder(99, "python other.py")}
    found = diagnosed(engine, store, has=AT_IT, lock_holders=held).findings[0]
    assert (found.who, found.where) == (("rank 2", "pid 71"), f"{DATA}:7 fetch")
    assert "that lock is held by process 99: python other.py" in found.evidence
    assert [line.partition(" waits for process ")[0] for line in found.evidence if " waits for process 7" in line] == [
        "rank 2",
        "process 70",
    ]


def test_who_holds_a_files_lock_is_followed_too() -> None:
    """Whatever it does: one that works gives the lock back."""
    engine = partner(70, stands((Frame(ENGINE, 12, "answer"),), Wait("lock", "file")), has=channels(ITS))
    for cpu, wait, state in ((0.0, Wait("sleep"), "stuck"), (0.9, None, "progressing")):
        keeper = partner(71, stands((Frame(DATA, 7, "keep"),), wait), cpu=cpu)
        held = {70: LockHolder(71, "python other.py")}
        found = diagnosed(engine, keeper, has=AT_IT, lock_holders=held)
        assert found.state == state
        if state == "stuck":
            first = found.findings[0]
            assert (first.who, first.where) == (("rank 2", "pid 71"), f"{DATA}:7 keep")
            assert "process 71 (engine.py), which holds the lock of a file, sleeps at data.py:7 keep" in first.title
            assert "has locked the file and does not let go" in first.cause
            assert first.next_steps[0].endswith("if it is a leftover: kill 71")
    own = stuck(2, user(50, "cache"), Wait("lock", "file"))
    waits = diagnosed(
        partner(71, stands((Frame(DATA, 7, "keep"),), Wait("sleep"))),
        asking=own,
        has=Channels(),
        lock_holders={ASKS: LockHolder(71, "python other.py")},
    ).findings[0]
    assert waits.code == "lock_wait"
    said = "the kernel's list of locks names process 71: python other.py; that one sleeps at data.py:7 keep"
    assert said in waits.evidence


def test_a_lock_within_a_process_is_not_held_by_its_child() -> None:
    """Nor is what a process holds itself told as if another one did."""
    engine = partner(70, stands((Frame(ENGINE, 12, "answer"),), Wait("lock")), has=channels(ITS))
    child = partner(71, stands((Frame(DATA, 7, "load"),), SOCKET))
    started = dataclasses.replace(child, activity=dataclasses.replace(child.activity, parent_pid=70))
    first = diagnosed(engine, started, has=AT_IT).findings[0]
    assert "pid 71" in first.who
    assert "holds the lock" not in " ".join((first.title, first.cause, *first.evidence))
    twice = partner(70, stands((Frame(ENGINE, 12, "answer"),), Wait("lock", "file")), has=channels(ITS))
    first = diagnosed(twice, has=AT_IT, lock_holders={70: LockHolder(70, "python engine.py")}).findings[0]
    assert "that lock is held by process 70: python engine.py" in first.evidence


def test_what_a_server_waits_for_on_behalf_of_another_rank_is_no_ring() -> None:
    """It serves each rank in a thread of its own; the one for rank 2 sleeps, that for rank 0 waits until it is asked again."""
    theirs = tcp(8000, 40077, 1000)
    asked = stands((*HANDLER, Frame(ENGINE, 25, "handle")), SOCKET, name="Thread-1", tid=75)
    for mine in (Wait("sleep"), Wait("queue", "get")):
        sleeps = stands((Frame(ENGINE, 39, "wait_for_quota"),), mine, name="Thread-2", tid=76)
        main = stands(SERVE_FOREVER, Wait("idle", "connections"))
        store = partner(70, main, asked, sleeps, has=channels(ITS, theirs, at={75: theirs}))
        found = diagnosed(store, has=AT_IT).findings[0]
        assert (*found.who, found.where) == ("rank 2", "pid 70", f"{ENGINE}:39 wait_for_quota")
    stopped = partner(70, main, asked, sleeps, state="T", has=channels(ITS, theirs, at={75: theirs}))
    found = diagnosed(stopped, has=AT_IT).findings[0]
    assert (*found.who, found.where) == ("rank 2", "pid 70", f"{ENGINE}:39 wait_for_quota")


def test_one_that_wakes_up_now_and_then_may_work() -> None:
    """A poll of its own looks the same from outside as work in small pieces."""
    for switches, confidence in ((0, "high"), (3, "medium")):
        engine = partner(70, stands((Frame(ENGINE, 12, "work"),), Wait("sleep")), switches=switches, has=channels(ITS))
        found = diagnosed(engine, has=AT_IT).findings[0]
        assert (found.code, found.confidence) == ("io_wait", confidence)
        said = [line for line in found.evidence if line.startswith("process 70 wakes up now and then")]
        assert len(said) == (switches > 0)


def test_a_ring_of_a_rank_and_a_process() -> None:
    weights, taken = tcp(40009, 8001, 70), tcp(8001, 40009, ASKS)
    engine = partner(70, stands((Frame(ENGINE, 26, "do_POST"),), SOCKET), has=channels(ITS, taken, at={70: taken}))
    found = diagnosed(engine, has=channels(MINE, weights, at={ASKS: MINE})).findings[0]
    assert (found.code, found.who, found.where) == ("process_deadlock", ("rank 2", "pid 70"), f"{TRAIN}:50 rollout")
    assert found.title == (
        "Rank 2 and process 70 (engine.py) wait for each other: rank 2 at train.py:50 rollout, process 70 at engine.py:26 do_POST"
    )
    assert "process 70 waits for rank 2" in found.evidence
    assert found.confidence == "high"


def test_both_at_one_connection_are_speechless() -> None:
    engine = partner(70, stands((Frame(ENGINE, 26, "receive"),), SOCKET), has=channels(ITS, at={70: ITS}))
    found = diagnosed(engine, has=AT_IT).findings[0]
    assert found.code == "process_deadlock"
    assert "process 70 waits for rank 2 at the other end of the same connection" in found.evidence
    assert "its length does not match" in found.cause


def test_who_hears_a_client_may_have_another_thread_that_is_the_reason() -> None:
    reads = stands((Frame(ENGINE, 26, "receive"),), SOCKET, name="reader", tid=75)
    works = stands((Frame(ENGINE, 40, "generate"),), Wait("lock"))
    engine = partner(70, works, reads, has=channels(ITS, at={75: ITS}))
    found = diagnosed(engine, has=AT_IT).findings[0]
    assert (found.code, found.where) == ("io_wait", f"{ENGINE}:40 generate")


def test_a_server_without_work_has_lost_the_request() -> None:
    engine = partner(70, stands(SERVE_FOREVER, Wait("idle", "connections")), has=channels(ITS))
    found = diagnosed(engine, has=AT_IT).findings[0]
    assert found.title.endswith("and process 70 (engine.py) has nothing to do at engine.py:90 main")
    assert "answered with less than is waited for" in found.cause


def test_through_an_event_loop_to_a_worker_in_a_collective_for_the_rank() -> None:
    inward, outward = (
        Channel("unix", "socket:[5]", "unix socket /tmp/core", (71,)),
        Channel("unix", "socket:[6]", "unix socket /tmp/core", (70,)),
    )
    gloo, back = tcp(41000, 50000, 71), tcp(50000, 41000, ASKS)
    api = partner(70, stands(EVENTS, Wait("idle", "events")), has=channels(ITS, inward, at={70: ITS}))
    worker = partner(71, stands(*IN_A_BROADCAST), trains=True, has=channels(outward, back))
    found = diagnosed(api, worker, has=channels(MINE, gloo, at={ASKS: MINE})).findings[0]
    assert (found.code, found.who, found.confidence) == ("process_deadlock", ("rank 2", "pid 70", "pid 71"), "medium")
    assert "by way of process 70 (engine.py)" in found.title
    assert "process 71 waits in broadcast for rank 2" in found.evidence
    waits = [line for line in found.evidence if line.startswith("rank 2 waits for process 70")]
    assert "that one waits in an event loop at engine.py:80 serve" in waits[0]


def beyond(number: int) -> RankEvidence:
    """A rank in a call of a group that it shares with others than the ranks of its job."""
    found = records(number, waits="broadcast")
    call = dataclasses.replace(found.calls[-1], group="weights")
    group = Group("weights", "", "gloo", (0, 1), 1, 0, met_at="127.0.0.1:45231")
    default = dataclasses.replace(found.groups[0], last_issued=20)
    own = dataclasses.replace(found, groups=(default, group), calls=(*found.calls[:-1], call))
    frames = (C10D, Frame(TRAIN, 60, "send_weights"))
    return dataclasses.replace(stuck(number, frames, Wait("collective", "broadcast")), collectives=own)


def test_an_engine_that_was_never_told_of_a_call() -> None:
    gloo, back = tcp(41000, 50000, 70), tcp(50000, 41000, ASKS)
    reads = stands(HANDLER, SOCKET, name="handler", tid=75)
    engine = partner(
        70,
        stands(SERVE_FOREVER, Wait("idle", "connections")),
        reads,
        trains=True,
        has=channels(ITS, back, at={75: ITS}),
    )
    found = diagnosed(engine, asking=beyond(2), has=channels(MINE, gloo)).findings[0]
    assert (found.code, found.who, found.where) == (
        "collective_not_issued",
        ("rank 2", "pid 70"),
        f"{TRAIN}:60 send_weights",
    )
    assert found.title == (
        "Process 70 (engine.py) is not in the broadcast in which rank 2 waits for it: it has nothing to do at engine.py:90 main"
    )


def test_members_of_one_call_wait_for_the_third_and_not_for_each_other() -> None:
    to_one, to_other = tcp(41000, 50000, 70), tcp(41001, 50001, 71)
    back, beside = tcp(50000, 41000, ASKS), tcp(50001, 41001, ASKS)
    there = partner(70, stands(*IN_A_BROADCAST), trains=True, has=channels(back))
    missing = partner(71, stands((Frame(DATA, 7, "load"),), Wait("lock")), trains=True, has=channels(beside))
    found = diagnosed(there, missing, asking=beyond(2), has=channels(to_one, to_other)).findings[0]
    assert (found.code, found.who) == ("collective_not_issued", ("rank 2", "pid 71"))
    alone = diagnosed(there, asking=beyond(2), has=channels(to_one)).findings[0]
    assert "pid 70" not in alone.who


def test_another_call_of_the_engine_may_be_for_its_own_workers() -> None:
    """Who stands still by himself is nearer to the root than a ring that is closed by a guess."""
    to_one, to_other = tcp(41000, 50000, 70), tcp(41001, 50001, 71)
    back, beside = tcp(50000, 41000, ASKS), tcp(50001, 41001, ASKS)
    reduces = stands(
        (dataclasses.replace(C10D, function="all_reduce"), Frame(ENGINE, 52, "forward")),
        Wait("collective", "all_reduce"),
    )
    one = partner(70, reduces, trains=True, has=channels(back))
    other = partner(71, stands((Frame(DATA, 7, "load"),), Wait("lock")), trains=True, has=channels(beside))
    assert diagnosed(one, other, asking=beyond(2), has=channels(to_one, to_other)).findings[0].who == (
        "rank 2",
        "pid 71",
    )
    assert diagnosed(one, asking=beyond(2), has=channels(to_one)).findings[0].code == "process_deadlock"


def test_a_process_that_cannot_be_seen_into_is_not_said_to_be_elsewhere() -> None:
    unseen = dataclasses.replace(
        partner(70, stands((), None), trains=True, has=channels(tcp(50000, 41000, ASKS))), stacks=None
    )
    assert "pid 70" not in diagnosed(unseen, asking=beyond(2), has=channels(tcp(41000, 50000, 70))).findings[0].who


def test_the_numbers_of_such_a_group_are_no_ranks_of_the_job() -> None:
    found = diagnosed(asking=beyond(2), has=Channels()).findings[0]
    assert (found.code, *found.who) == ("collective_not_issued", "rank 2")
    assert "rank 0 " not in found.title


def test_ranks_that_wait_for_their_own_job_are_not_followed() -> None:
    engine = partner(
        70, stands((Frame(ENGINE, 26, "receive"),), SOCKET), trains=True, has=channels(tcp(8000, 40003, 1000), at={})
    )
    mine = channels(tcp(40003, 8000, 70))
    found = running.diagnose(
        job(*OTHERS, ASKING, channels={1000: mine, ASKS: Channels()}, partners={70: engine})
    ).findings
    assert [f.who for f in found] == [("rank 2",)]


def test_bystanders_are_not_followed_from_a_wait_of_the_ranks_own() -> None:
    busy = partner(70, stands((Frame(ENGINE, 12, "count"),), None), cpu=0.9, has=channels(ITS))
    for wait in (Wait("lock"), Wait("file", "read", "/data/x"), Wait("thread")):
        alone = stuck(2, user(50, "rollout"), wait)
        found = diagnosed(busy, asking=alone, has=channels(MINE))
        assert found.state == "stuck", wait
        assert "pid 70" not in found.findings[0].who


def test_who_sleeps_and_asks_again_is_told_whom_it_asks() -> None:
    sleeps = stuck(2, user(50, "rollout"), Wait("sleep"))
    serves = stands(SERVE_FOREVER, Wait("idle", "connections"))
    woken, left_alone = (partner(70, serves, switches=n, has=channels(ITS, at={70: ITS})) for n in (9, 0))
    found = diagnosed(woken, asking=sleeps, has=channels(MINE)).findings[0]
    assert (found.code, found.who) == ("python_wait", ("rank 2", "pid 70"))
    assert "what it waits for is not on its way any more" in found.cause
    assert diagnosed(left_alone, asking=sleeps, has=channels(MINE)).findings[0].who == ("rank 2",)


def test_a_server_that_works_for_others_does_not_excuse_who_sleeps() -> None:
    sleeps = stuck(2, user(50, "rollout"), Wait("sleep"))
    hears = stands(HANDLER, SOCKET, name="handler", tid=75)
    busy = partner(70, stands((Frame(ENGINE, 12, "count"),), None), cpu=0.9, switches=9, has=channels(ITS))
    told = [
        dataclasses.replace(t, switches=0, cpu_share=0.0) if t.tid == 75 else t
        for t in partner(70, hears).activity.threads
    ]
    quiet = dataclasses.replace(
        busy, activity=dataclasses.replace(busy.activity, threads=(*busy.activity.threads, *told))
    )
    found = diagnosed(
        dataclasses.replace(quiet, channels=channels(ITS, at={75: ITS})), asking=sleeps, has=channels(MINE)
    )
    assert (found.state, found.findings[0].who) == ("stuck", ("rank 2",))


def test_a_connection_that_a_process_has_by_being_forked_leads_nowhere() -> None:
    """A server that was forked from a rank has the ends of that rank's connections to the others, and so have the others' own children."""
    asks = stuck(2, user(50, "rollout"), SOCKET)
    group, its = tcp(50001, 50002, 1001, 71), tcp(50002, 50001, ASKS, 70)
    serves = stands(HANDLER, Wait("thread"))
    server = partner(70, serves, has=channels(ITS, group))
    stands_still = partner(71, stands((Frame(DATA, 12, "plot"),), Wait("lock")), has=channels(its))
    forked = [
        dataclasses.replace(one, activity=dataclasses.replace(one.activity, parent_pid=pid))
        for one, pid in ((server, ASKS), (stands_still, 1001))
    ]
    has = channels(MINE, group, at={ASKS: MINE})
    assert "pid 71" in diagnosed(server, stands_still, asking=asks, has=has).findings[0].who
    assert "pid 71" not in diagnosed(*forked, asking=asks, has=has).findings[0].who


def test_an_innocent_connection_of_a_rank_that_waits_elsewhere() -> None:
    """As a client of zmq: its library's thread is at the connection on which it asks, and nobody at that of its metrics."""
    polls = stuck(2, user(50, "rollout"), Wait("network", "poll"))
    metrics, its = tcp(40020, 9999, 71), tcp(9999, 40020, ASKS)
    busy = partner(71, stands((Frame(DATA, 12, "plot"),), None), cpu=0.9, has=channels(its))
    asked = partner(70, stands((Frame(ENGINE, 12, "answer"),), Wait("lock")), has=channels(ITS))
    found = diagnosed(busy, asked, asking=polls, has=channels(MINE, metrics, at={1777: MINE}))
    assert (found.state, found.findings[0].who) == ("stuck", ("rank 2", "pid 70"))


def test_a_port_that_a_variable_names_leads_to_who_works_there() -> None:
    sleeps = stuck(2, user(50, "rollout"), Wait("sleep"))
    named = Channel("port", "port 8000", "port 8000", (70,))
    serves = stands(SERVE_FOREVER, Wait("idle", "connections"), name="http", tid=75)
    loads = partner(70, stands((Frame(ENGINE, 12, "load"),), None), serves, cpu=0.9, switches=9)
    assert diagnosed(loads, asking=sleeps, has=channels(named)).state == "progressing"


def test_a_rank_at_a_socket_of_one_that_waits_for_it_in_a_collective() -> None:
    to_rank_0, back = tcp(40005, 9100, 1000), tcp(9100, 40005, ASKS)
    found = running.diagnose(
        job(*OTHERS, ASKING, channels={ASKS: channels(to_rank_0, at={ASKS: to_rank_0}), 1000: channels(back)})
    ).findings
    assert (found[0].code, found[0].who) == ("process_deadlock", ("rank 2", "rank 0"))


def test_who_waits_for_a_key_of_the_store_does_not_wait_for_the_rank_that_serves_it() -> None:
    """A thread of torch's, which is none of Python, is at the other end."""
    to_rank_0, back = tcp(40005, 29500, 1000), tcp(29500, 40005, ASKS)
    for wait in (Wait("store", "get"), Wait("native"), SOCKET):
        asks = stuck(2, user(50, "rollout"), wait)
        served = {ASKS: channels(to_rank_0, at={ASKS: to_rank_0}), 1000: channels(back, at={1700: back})}
        found = running.diagnose(job(*OTHERS, asks, channels=served)).findings
        assert [f.code for f in found if "rank 0" in f.who] == [], wait
        assert found[0].who == ("rank 2",)


def test_nor_for_another_process_that_serves_it() -> None:
    serves = dataclasses.replace(stands((), None, tid=75), name="pt_tcpstore_uv")
    launcher = partner(70, stands(SERVE_FOREVER, Wait("idle", "connections")), serves, has=channels(ITS, at={75: ITS}))
    assert diagnosed(launcher, has=AT_IT).findings[0].who == ("rank 2",)


def test_a_rank_at_a_socket_of_one_that_works_is_not_to_blame() -> None:
    to_rank_0 = tcp(40005, 9100, 1000)
    at_it = channels(to_rank_0, at={ASKS: to_rank_0})
    found = running.diagnose(job(computing(0), waiting(1), ASKING, waiting(3), channels={ASKS: at_it}))
    assert found.state == "progressing"
    assert [state.state for state in found.ranks] == ["computing", "waiting", "waiting", "waiting"]


def test_a_rank_that_waits_for_a_thread_of_its_own_which_waits_for_a_server() -> None:
    fetches = thread((Frame(TRAIN, 71, "fetch"),), SOCKET, name="prefetch", tid=1999)
    own = stuck(2, user(50, "next_batch"), Wait("queue", "get"))
    looks = tuple(
        dataclasses.replace(
            look, processes=(dataclasses.replace(look.processes[0], threads=(*look.processes[0].threads, fetches)),)
        )
        for look in own.looks
    )
    asks = dataclasses.replace(own, looks=looks)
    engine = partner(70, stands((Frame(ENGINE, 12, "answer"),), Wait("lock")), has=channels(ITS))
    found = diagnosed(engine, asking=asks, has=channels(MINE, at={1999: MINE})).findings[0]
    assert (found.code, found.who, found.where) == ("python_wait", ("rank 2", "pid 70"), f"{ENGINE}:12 answer")


def test_processes_below_the_rank_are_told_of_as_such() -> None:
    child = partner(70, stands((Frame(ENGINE, 26, "flush"),), SOCKET), has=channels(ITS, at={70: ITS}))
    parent = dataclasses.replace(ASKING, children=(dataclasses.replace(child.activity, role="child"),))
    found = diagnosed(child, asking=parent, has=AT_IT).findings[0]
    assert (found.code, *found.who) == ("io_wait", "rank 2")


def test_many_processes_that_all_know_each_other_are_passed_once_each() -> None:
    """All ways between twenty would be more than anybody can count."""
    pids = range(70, 90)
    known = {
        pid: channels(
            *(
                tcp(20000 + pid * 100 + n, 20000 + other * 100 + n, other)
                for n, other in enumerate(pids)
                if other != pid
            )
        )
        for pid in pids
    }
    crowd = [partner(pid, stands(EVENTS, Wait("idle", "events")), has=known[pid]) for pid in pids]
    assert diagnosed(*crowd, has=AT_IT).findings[0].who == ("rank 2", "pid 70")
