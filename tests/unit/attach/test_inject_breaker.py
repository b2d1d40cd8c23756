"""Where a process says that its eval breaker is: read from memory that a test writes."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_traindbg.attach import breaker

RUNTIME, INTERPRETER, THREAD = 64, 4096, 8192
INTERPRETERS_HEAD, THREADS_MAIN, INTERPRETER_OF_THREAD, EVAL_BREAKER = 808, 1360, 16, 24
MADE = {
    breaker.VERSION: 0x030E0AF0,
    breaker.INTERPRETERS_HEAD: INTERPRETERS_HEAD,
    breaker.THREADS_MAIN: THREADS_MAIN,
    breaker.INTERPRETER_OF_THREAD: INTERPRETER_OF_THREAD,
    89: EVAL_BREAKER,
}


class Memory:
    """A file in the place of /proc/PID/mem: a runtime of 3.14, an interpreter and its main thread."""

    def __init__(self, path: Path) -> None:
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT)
        os.pwrite(self.fd, breaker.COOKIE, RUNTIME)
        for number, offset in MADE.items():
            self.say(number, offset)
        self.put(RUNTIME + INTERPRETERS_HEAD, INTERPRETER)
        self.put(INTERPRETER + THREADS_MAIN, THREAD)
        self.put(THREAD + INTERPRETER_OF_THREAD, INTERPRETER)

    def put(self, address: int, value: int) -> None:
        os.pwrite(self.fd, struct.pack("<Q", value), address)

    def say(self, number: int, value: int) -> None:
        """Word `number` of the offsets that it publishes."""
        self.put(RUNTIME + 8 * number, value)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    made = Memory(tmp_path / "memory")
    yield made
    os.close(made.fd)


def test_found(memory: Memory) -> None:
    assert breaker.published(memory.fd, RUNTIME) == THREAD + EVAL_BREAKER


def test_the_next_version_says_it_elsewhere(memory: Memory) -> None:
    memory.say(breaker.VERSION, 0x030F02F0)
    memory.say(105, 32)
    assert breaker.published(memory.fd, RUNTIME) == THREAD + 32


@pytest.mark.parametrize("version", [0x030D05F0, 0x031000F0, 0x040E00F0, 0])
def test_other_versions_are_not_guessed_at(memory: Memory, version: int) -> None:
    memory.say(breaker.VERSION, version)
    assert breaker.published(memory.fd, RUNTIME) == 0


def test_without_a_gil_the_bit_is_for_something_else(memory: Memory) -> None:
    memory.say(breaker.FREE_THREADED, 1)
    assert breaker.published(memory.fd, RUNTIME) == 0


def test_another_cookie_is_no_word_of_cpython(memory: Memory) -> None:
    os.pwrite(memory.fd, b"xdebugpx", RUNTIME)
    assert breaker.published(memory.fd, RUNTIME) == 0


@pytest.mark.parametrize("missing", [RUNTIME + INTERPRETERS_HEAD, INTERPRETER + THREADS_MAIN])
def test_a_python_that_has_just_begun_has_no_main_thread_yet(memory: Memory, missing: int) -> None:
    memory.put(missing, 0)
    assert breaker.published(memory.fd, RUNTIME) == 0


def test_a_thread_that_does_not_know_its_interpreter_is_none(memory: Memory) -> None:
    memory.put(THREAD + INTERPRETER_OF_THREAD, INTERPRETER + 8)
    assert breaker.published(memory.fd, RUNTIME) == 0
