# ruff: noqa: E501 - a line of a log stays one line
"""A rank ends, and the others see it: who is the root, by what they printed and by the launcher's word; and no advice about networks that are well."""

from __future__ import annotations

from pathlib import Path

import pytest
from cases import each
from log_evidence import evidence, judged, only, said

from jupyter_traindbg import diagnose_log
from jupyter_traindbg.diagnose.log.launch import ranks
from jupyter_traindbg.model import Finding
from jupyter_traindbg.outside import logs
from jupyter_traindbg.outside.logs import read_text

PAIR = "[/src/third_party/gloo/gloo/transport/tcp/pair.cc:{}] "
CLOSED = (
    PAIR.format(553)
    + "Connection closed by peer [127.0.0.1]:31919. This is typically caused by a remote worker crashing."
)
RESET = (
    PAIR.format(537)
    + "Read error [127.0.0.1]:2191: Connection reset by peer. This is typically caused by a remote worker hanging."
)
SENT_WAIT = "[/src/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:129] Timed out waiting 6000ms for send operation to complete"
RECV_WAIT = "[/src/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 6000ms for recv operation to complete"
SIZES = (
    PAIR.format(456)
    + "op.preamble.length <= op.nbytes. 88 vs 44. Received data size doesn't match expected size. Is there a distributed collective mismatch in your code?"
)


def raised(rank: int | None, what: str, line: int = 28, code: str = "loss.backward()", function: str = "main") -> str:
    """A traceback of `rank`, as torch 2.6 and later print it."""
    trace = f"""\
Traceback (most recent call last):
  File "/job/fit.py", line {line}, in {function}
    {code}
  File "/py/site-packages/torch/autograd/graph.py", line 979, in _engine_run_backward
    return Variable._execution_engine.run_backward(
{what}
"""
    prefix = "" if rank is None else f"[rank{rank}]: "
    return "".join(prefix + text for text in trace.splitlines(keepends=True))


def summary(rank: int, code: int, *others: int) -> str:
    """What torchrun says at the end: `rank` was the first that failed, `others` were told to end."""
    blocks = [
        f"[{n}]:\n  time      : 2026-03-04_10:00:01\n  host      : gpu-7\n  rank      : {r} (local_rank: {r})\n"
        f"  exitcode  : {c} (pid: {4000 + r}) \n  error_file: <N/A>\n"
        for n, (r, c) in enumerate([(rank, code), *((r, -15) for r in others)])
    ]
    return (
        f"E0304 10:00:01.000000 3999 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: {code}) local_rank: {rank} (pid: {4000 + rank}) of binary: /py/bin/python\n"
        'Traceback (most recent call last):\n  File "/py/bin/torchrun", line 8, in <module>\n    sys.exit(main())\n'
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n" + "=" * 60 + "\nfit.py FAILED\n"
        "Failures:\n" + "".join(blocks[1:]) + "Root Cause (first observed failure):\n" + blocks[0] + "=" * 60 + "\n"
    )


def steps(count: int, rank: int = 0) -> str:
    return "".join(f"[rank{rank}]: step {n} loss {1 / (n + 1):.4f}\n" for n in range(count))


def no_word_of_networks(finding: Finding) -> None:
    assert not [word for word in ("NCCL", "firewall", "interface", "/dev/shm") if word in said(finding)]


# --- the root is on the rank that is no victim ---------------------------------------------------------------------


@each("last", [False, True])
def test_an_exception_is_the_root_whoever_printed_first(last: bool) -> None:
    root = raised(1, "ValueError: label 17 is out of range", 42, "check(label)", "check_labels")
    victims = raised(0, f"RuntimeError: {CLOSED}") + raised(2, f"RuntimeError: {RESET}")
    found = only(steps(5) + (victims + root if last else root + victims) + summary(1, 1, 0, 2), "uncaught_exception")
    assert found.who == ("rank 1",)
    assert found.where == "/job/fit.py:42 check_labels"
    assert any("Connection closed by peer" in line for line in found.evidence), "what it caused is evidence of it"
    no_word_of_networks(found)


def test_of_separate_files_the_one_with_an_exception_of_its_own_is_the_root(tmp_path: Path) -> None:
    for rank, text in enumerate(
        (
            raised(None, f"RuntimeError: {CLOSED}"),
            "warming up\n" * 40 + raised(None, "KeyError: 'tokenizer'", 53, "vocabulary[name]", "load"),
        )
    ):
        place = tmp_path / "none_x" / "attempt_0" / str(rank)
        place.mkdir(parents=True)
        (place / "stderr.log").write_text(text)
    (found,) = diagnose_log(tmp_path)
    assert (found.code, found.who, found.where) == ("uncaught_exception", ("rank 1",), "/job/fit.py:53 load")


def test_a_failure_that_is_known_is_the_root_too_though_others_print_steps_after_it() -> None:
    root = raised(
        1,
        "RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 68719476736 bytes.",
    )
    found = only(root + steps(40) + raised(0, f"RuntimeError: {CLOSED}") + summary(1, 1, 0), "host_oom_killed")
    assert found.who == ("rank 1",)


def test_a_rank_has_not_got_over_what_it_printed_before_its_own_buffered_steps() -> None:
    """``torchrun --tee 3``: standard output comes when the rank ends, standard error at once."""
    root = raised(1, "RuntimeError: the batch is empty", 9)
    found = only(root + steps(5) + steps(40, rank=1) + summary(1, 1, 0), "uncaught_exception")
    assert found.who == ("rank 1",)


def test_what_a_rank_got_over_long_before_it_failed_is_no_root() -> None:
    early = raised(1, "ValueError: no cache yet", 12, "read_cache()", "warm")
    late = raised(1, "KeyError: 'tokenizer'", 53, "vocabulary[name]", "load")
    found = only(
        early + steps(400) + late + raised(0, f"RuntimeError: {CLOSED}") + summary(1, 1, 0), "uncaught_exception"
    )
    assert found.where == "/job/fit.py:53 load"


def test_the_launchers_own_exception_is_no_failure_of_the_job() -> None:
    found = only(steps(5) + summary(1, 3, 0), "process_ended")
    assert "ChildFailedError" not in said(found)
    assert found.where is None


# --- who ended without a word --------------------------------------------------------------------------------------


def test_a_crash_is_told_by_its_signal_and_its_rank() -> None:
    found = only(steps(5) + raised(0, f"RuntimeError: {RESET}") + summary(1, -11, 0), "process_ended")
    assert found.title == "Crash in native code (SIGSEGV) on rank 1"
    assert (found.who, found.where, found.confidence) == (("rank 1",), None, "high")
    assert "gpu-7" in found.cause
    assert "PYTHONFAULTHANDLER=1" in said(found)
    no_word_of_networks(found)


def test_the_stack_that_faulthandler_printed_is_where_it_crashed() -> None:
    stack = '[rank1]: Fatal Python error: Segmentation fault\n[rank1]: \n[rank1]: Current thread 0x00007f50 (most recent call first):\n[rank1]:   File "/job/fit.py", line 31 in wrap\n[rank1]:   File "/job/fit.py", line 40 in main\n'
    found = only(stack + summary(1, -11, 0), "process_ended")
    assert found.where == "/job/fit.py:31 wrap"
    assert "PYTHONFAULTHANDLER" not in said(found), "it was there"
    assert only(stack, "process_ended").who == ("rank 1",)


def test_an_exit_status_is_told_only_of_who_printed_nothing() -> None:
    found = only(steps(5) + raised(0, f"RuntimeError: {CLOSED}") + summary(1, 3, 0), "process_ended")
    assert found.title == "Exit status 3 without an error in the log: rank 1"
    assert found.who == ("rank 1",)
    only(raised(1, "KeyError: 'x'") + summary(1, 1, 0), "uncaught_exception")


def test_a_kill_is_memorys() -> None:
    found = only(steps(5) + raised(0, f"RuntimeError: {RESET}") + summary(1, -9, 0), "host_oom_killed")
    assert "rank 1" in found.who
    no_word_of_networks(found)


def test_a_kill_that_spawn_tells_has_its_rank() -> None:
    found = only(
        "torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGKILL",
        "host_oom_killed",
    )
    assert found.who == ("rank 1",)


def test_a_person_who_ends_the_job_is_no_failure() -> None:
    assert judged(steps(5) + raised(0, "KeyboardInterrupt") + summary(0, -2, 1)) == []


def test_a_job_that_was_ended_from_outside_is_told_so() -> None:
    assert only(steps(5) + summary(0, -15, 1), "process_ended").title == "The job was ended from outside (SIGTERM)"


# --- who left --------------------------------------------------------------------------------------------------------


def test_a_rank_that_came_to_its_end_is_told_though_the_launcher_names_a_victim() -> None:
    victims = raised(2, f"RuntimeError: {CLOSED}") + raised(0, f"RuntimeError: {CLOSED}")
    found = only("[default0]:start\n" + steps(5) + victims + summary(0, 1, 2), "peer_lost")
    assert found.who == ("rank 1",)
    assert "before the others" in found.title
    assert "fewer batches" in found.cause
    assert found.where is None, "not where the victims stood"
    no_word_of_networks(found)


def test_a_rank_whose_files_are_empty_is_the_one_that_left(tmp_path: Path) -> None:
    for rank, text in enumerate((raised(None, f"RuntimeError: {RESET}"), "")):
        place = tmp_path / "none_x" / "attempt_0" / str(rank)
        place.mkdir(parents=True)
        (place / "stderr.log").write_text(text)
        (place / "stdout.log").write_text("")
    (found,) = diagnose_log(tmp_path)
    assert (found.code, found.who) == ("peer_lost", ("rank 1",))
    assert "exit status of rank 1" in found.cause


def test_of_victims_alone_nobody_is_blamed() -> None:
    found = only(raised(0, f"RuntimeError: {CLOSED}") + raised(2, f"RuntimeError: {CLOSED}"), "peer_lost")
    assert (found.who, found.confidence) == ((), "low")
    assert "[127.0.0.1]:31919" in found.cause
    no_word_of_networks(found)


def test_a_connection_that_nccl_loses_stays_nccls() -> None:
    only(
        "misc/socket.cc:58 NCCL WARN socketProgress: Connection closed by remote peer gpu-b.cluster<51544>",
        "nccl_system_error",
    )


def test_an_exception_elsewhere_is_the_root_of_what_nccl_loses_too() -> None:
    lost = "[rank0]: ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.\n[rank0]: Last error:\n[rank0]: socketProgress: Connection closed by remote peer gpu-b<51544>\n"
    found = only(
        lost + raised(1, "AssertionError: sizes of batch and labels", 42, "assert same", "check"), "uncaught_exception"
    )
    assert (found.who, found.where) == (("rank 1",), "/job/fit.py:42 check")


# --- ranks in different collectives ----------------------------------------------------------------------------------


def test_ranks_that_time_out_at_different_lines_are_apart() -> None:
    log = (
        raised(0, f"RuntimeError: {RECV_WAIT}")
        + raised(1, f"RuntimeError: {CLOSED}", 38, "dist.barrier()")
        + raised(2, f"RuntimeError: {SENT_WAIT}")
    )
    found = only(log, "rank_desync")
    assert (found.who, found.where) == (("rank 1",), "/job/fit.py:38 main")
    assert "rank 1 at fit.py:38 (dist.barrier()), rank 0, 2 at fit.py:28 (loss.backward())" in found.title


def test_they_are_not_apart_where_one_of_them_was_late() -> None:
    log = raised(0, f"RuntimeError: {RECV_WAIT}") + raised(2, f"RuntimeError: {SENT_WAIT}", 38, "dist.barrier()")
    found = only("[default0]:start\n" + log + summary(0, 1, 2), "nccl_timeout")
    assert found.who == ("rank 1",)


@pytest.mark.parametrize("order", ["abort first", "abort last"])
def test_a_mismatch_is_no_matter_of_the_network(order: str) -> None:
    aborted = f"[rank0]: terminate called after throwing an instance of 'gloo::EnforceNotMet'\n[rank0]:   what():  [enforce fail at {SIZES[1:]}\n"
    others = raised(1, f"RuntimeError: {RESET}", 58, "dist.all_reduce(mine)", "act") + raised(
        2, f"RuntimeError: {RESET}", 68, "dist.all_reduce(ours)"
    )
    log = aborted + others if order == "abort first" else others + aborted
    found = only(log + summary(0, -6, 1, 2), "rank_desync")
    assert found.who == ("rank 1", "rank 2"), "where rank 0 stood is not printed: either may be the odd one"
    assert "fit.py:58" in found.title
    assert "fit.py:68" in found.title
    assert "(88 B) was not what was waited for (44 B)" in found.cause
    no_word_of_networks(found)


def test_a_mismatch_without_places_names_nobody_and_its_sizes() -> None:
    found = only(f"RuntimeError: {SIZES}", "rank_desync")
    assert found.who == ()
    assert "88 B came, 44 B were waited for" in found.title
    no_word_of_networks(found)


def test_of_two_ranks_the_place_of_the_one_that_printed_it_is_told() -> None:
    aborted = f"terminate called after throwing an instance of 'gloo::EnforceNotMet'\n  what():  {SIZES}\n"
    found = only(
        aborted + raised(1, f"RuntimeError: {RESET}", 58, "dist.all_reduce(mine)", "act") + summary(0, -6, 1),
        "rank_desync",
    )
    assert "Rank 1 was at fit.py:58 (dist.all_reduce(mine))" in found.cause
    assert found.who == ()


# --- which ranks there are ---------------------------------------------------------------------------------------------


def test_ranks_are_those_who_wrote_those_in_the_summary_and_those_between() -> None:
    assert ranks(evidence("[rank0]: a\n[rank3]: b")) == {0, 3}, "an excerpt may lack others"
    assert ranks(read_text(summary(5, 1, 6), anchors=("never there",))) == {5, 6}
    assert ranks(evidence("world_size: 4")) == {0, 1, 2, 3}


def test_of_a_rank_with_empty_files_one_is_listed(tmp_path: Path) -> None:
    for rank, text in ((0, "words\n"), (1, "")):
        for name in ("stderr.log", "stdout.log"):
            path = tmp_path / "attempt_0" / str(rank) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    assert [(f.name, f.rank) for f in logs.find(str(tmp_path))] == [
        ("0/stderr.log", 0),
        ("0/stdout.log", 0),
        ("1/stderr.log", 1),
    ]
