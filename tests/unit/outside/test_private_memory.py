"""What a process has for itself: pages that a child of ours has written to."""

from __future__ import annotations

import os
import threading

import pytest
from cases import each

from jupyter_traindbg.outside import private_memory


def test_what_this_process_has_for_itself_grows_with_what_it_writes() -> None:
    before = private_memory.private_bytes(os.getpid())
    if before is None:
        pytest.skip("this kernel does not tell")
    block = bytearray(os.urandom(1) * 30_000_000)
    after = private_memory.private_bytes(os.getpid())
    assert after is not None
    assert after - before > 0.8 * len(block)


def test_a_process_that_is_gone_is_left_out_and_one_that_rests_does_not_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = {1: iter([10, 10, 10, 10]), 2: iter(range(10, 90, 10))}
    monkeypatch.setattr(
        private_memory, "private_bytes", lambda pid: next(readings[pid], 10 * pid**2) if pid in readings else None
    )
    monkeypatch.setattr(private_memory, "pages", lambda _: None)
    monkeypatch.setattr(private_memory, "WORTH_BYTES", 1)
    monkeypatch.setattr(private_memory, "EVERY_S", 0.001)
    grown = private_memory.growth([1, 2, 3], 0.0)
    assert set(grown) == {1, 2}
    assert grown[1][:3] == (10, 0.0, False)
    assert grown[2].private_bytes == 80
    assert grown[2].a_second > 0


def test_they_are_watched_until_the_training_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """While it is entered it asks its workers for nothing."""
    answered = threading.Event()
    readings = iter([*[10] * 8, 20, 30, 40, 50, 60, 70])

    def read(_: int) -> int:
        now = next(readings)
        if now == 20:
            answered.set()
        return now

    monkeypatch.setattr(private_memory, "private_bytes", read)
    monkeypatch.setattr(private_memory, "pages", lambda _: None)
    monkeypatch.setattr(private_memory, "WORTH_BYTES", 1)
    monkeypatch.setattr(private_memory, "EVERY_S", 0.001)
    (grown,) = private_memory.growth([1], 0.0, answered).values()
    assert grown.a_second > 0
    assert grown.evenly


def test_a_process_is_read_again_only_where_pages_have_come_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a fault nothing becomes private; a huge page comes with a single one."""
    few, many = private_memory.FEW_PAGES - 1, private_memory.FEW_PAGES
    now = iter([(100, 900), (100 + few, 900), (100 + many, 900), (101 + many, 1412), (101 + many, 1412)])
    readings = iter([10, 30, 40])
    monkeypatch.setattr(private_memory, "pages", lambda _: private_memory.Pages(*next(now)))
    monkeypatch.setattr(private_memory, "private_bytes", lambda _: next(readings))
    monkeypatch.setattr(private_memory, "WORTH_BYTES", 1000)
    monkeypatch.setattr(private_memory, "EVERY_S", 0.0)
    monkeypatch.setattr(private_memory, "LEAST_READINGS", 5)
    (grown,) = private_memory.growth([1], 0.0).values()
    assert grown.private_bytes == 40
    assert next(readings, None) is next(now, None) is None


def test_pages_come_in_as_memory_is_written_to() -> None:
    before = private_memory.pages(os.getpid())
    block = bytearray(os.urandom(1) * 30_000_000)
    after = private_memory.pages(os.getpid())
    assert before is not None
    assert after is not None
    assert after.faults > before.faults
    assert (after.resident - before.resident) * os.sysconf("SC_PAGE_SIZE") > 0.8 * len(block)
    assert private_memory.pages(2**22 + 1) is None


@each(
    ("values", "rises", "evenly"),
    [
        ([10, 20, 30, 40, 50, 60, 70], True, True),
        ([10, 40, 55, 62, 65, 66, 66], True, False),
        ([10, 10, 10, 10, 10, 10, 10], False, False),
        ([10, 30, 20, 40, 30, 50, 60], False, True),
    ],
)
def test_what_levels_off_does_not_grow_evenly(
    values: list[int], rises: bool, evenly: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = iter([*range(-len(values), 0), *values])
    monkeypatch.setattr(private_memory, "private_bytes", lambda _: next(read, values[-1]))
    monkeypatch.setattr(private_memory, "pages", lambda _: None)
    monkeypatch.setattr(private_memory, "WORTH_BYTES", 1)
    monkeypatch.setattr(private_memory, "EVERY_S", 0.0)
    monkeypatch.setattr(private_memory, "LEAST_READINGS", len(values))
    (grown,) = private_memory.growth([1], 0.0).values()
    assert next(read, None) is None, "looked at again"
    assert (grown.a_second > 0, grown.evenly) == (rises, evenly)
