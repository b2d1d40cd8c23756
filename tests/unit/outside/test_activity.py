"""What two readings of /proc tell of a process. Real ones that compute, wait and are stopped: tests/integration/test_activity.py."""

from __future__ import annotations

import dataclasses
import os
import socket
import subprocess
import time
from types import SimpleNamespace

import pytest

from jupyter_traindbg.model import Activity, NotAvailable
from jupyter_traindbg.outside import activity, sockets
from jupyter_traindbg.outside.activity import _Clock, _Reading
from jupyter_traindbg.outside.open_files import Seen

ME = os.getpid()
S = 1_000_000_000
THEN = _Reading(100.0, {ME: _Clock(5 * S, 10, 1 * S)}, 1_000, 7, 3, 4_096)
NOW = _Reading(102.0, {ME: _Clock(6 * S, 14, 3 * S // 2)}, 5_000, 7, 9, 4_096)


def between(then: _Reading, now: _Reading, monkeypatch: pytest.MonkeyPatch) -> Activity:
    """What is told of this process, had it been read so."""
    readings = [then, now]
    monkeypatch.setattr(activity, "_read", lambda pid: readings.pop(0))
    return activity.watch([ME], 0.0)[ME]


def test_shares_and_rates_are_those_of_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = between(THEN, NOW, monkeypatch)
    (main,) = seen.threads
    assert (seen.window_s, seen.cpu_share, main.cpu_share, main.starved_share, main.switches) == (
        2.0,
        0.5,
        0.5,
        0.25,
        4,
    )
    assert (seen.read_bytes_per_s, seen.written_bytes_per_s, seen.major_faults_per_s) == (2_000.0, 0.0, 3.0)
    assert (seen.swap_bytes, seen.swap_growth_bytes_per_s) == (4_096, 0.0)


def test_who_rests_has_spent_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = between(THEN, THEN, monkeypatch)
    (main,) = seen.threads
    assert (seen.cpu_share, main.starved_share, main.switches, seen.read_bytes_per_s) == (0.0, 0.0, 0, 0.0)


def test_files_are_told_by_how_far_they_came(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was opened within the window counts from its beginning; one that was closed in it is not told."""
    files = {("/a", "write"): Seen(500, 7000), ("/b", "read"): Seen(70, None), ("/gone", "write"): Seen(9, 0)}
    later = {("/a", "write"): Seen(600, 9000), ("/b", "read"): Seen(10, None), ("/new", "append"): Seen(30, 5)}
    then, now = (dataclasses.replace(r, files=f) for r, f in ((THEN, files), (NOW, later)))
    seen = [(f.path, f.mode, f.moved, f.to_disk) for f in between(then, now, monkeypatch).files]
    assert seen == [("/a", "write", 100, 2000), ("/new", "append", 30, 0), ("/b", "read", 0, None)]


def test_a_thread_that_began_within_the_window_counts_from_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    young = _Reading(99.0, {}, 0, 0, 0, 0)
    (main,) = between(young, _Reading(101.0, {ME: _Clock(S, 3, 0)}, 0, 0, 0, 0), monkeypatch).threads
    assert (main.cpu_share, main.switches) == (0.5, 3)


def test_clocks_that_disagree_give_no_more_than_one_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    (main,) = between(THEN, _Reading(100.1, {ME: _Clock(6 * S, 11, 9 * S)}, 0, 0, 0, 0), monkeypatch).threads
    assert (main.cpu_share, main.starved_share) == (1.0, 1.0)


def test_what_the_kernel_does_not_count_is_not_available(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = NotAvailable("this kernel does not count it")
    reading = _Reading(1.0, {ME: _Clock(0, 0, None)}, None, None, 0, nothing)
    seen = between(reading, reading, monkeypatch)
    assert isinstance(seen.read_bytes_per_s, NotAvailable)
    assert isinstance(seen.swap_growth_bytes_per_s, NotAvailable)
    assert seen.threads[0].starved_share == nothing


def test_one_window_is_for_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(activity, "time", SimpleNamespace(monotonic=time.monotonic, sleep=slept.append))
    found = activity.watch([ME, os.getppid(), ME, 2**22 + 1], 0.5)
    assert list(found) == [ME, os.getppid()], "what is not there is not in the answer"
    assert len(slept) == 1
    assert 0 <= slept[0] <= 0.5


def test_listeners_and_both_ends_of_a_connection() -> None:
    with socket.socket(socket.AF_INET6) as six, socket.socket() as server:
        six.bind(("::1", 0))
        six.listen()
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as near, server.accept()[0]:
            near.sendall(b"12345")
            found = sockets.of(os.getpid())
            here, there = f"127.0.0.1:{near.getsockname()[1]}", f"127.0.0.1:{port}"
        words = [str(s) for s in found]
        assert f"tcp [::1]:{six.getsockname()[1]} LISTEN" in words
        assert f"tcp {there} LISTEN" in words
    assert f"tcp {here} -> {there} ESTABLISHED" in words
    assert [s.unread_bytes for s in found if str(s) == f"tcp {there} -> {here} ESTABLISHED"] == [5]
    assert sockets.of(os.getpid(), {}) == []


def test_nothing_is_known_of_what_is_gone() -> None:
    assert sockets.of(2**22 + 1) == []
    assert sockets.polled(os.getpid(), "poll", (0, 5, 0)) == [], "no such address in our memory"
    assert sockets.named("pipe:[1]", {}) == "pipe:[1]"


def test_a_process_that_has_ended_still_has_its_name() -> None:
    """As a compiler has for which nobody has waited yet."""
    with subprocess.Popen(["true"]) as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        assert activity.watch([ended.pid], 0.0)[ended.pid].command == "true"
