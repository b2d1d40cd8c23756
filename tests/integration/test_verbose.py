"""-v on real ways in: how it got in can be read, and none of the keys and tokens that it used."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from support import Start

import traindbg
from jupyter_traindbg.agent import rendezvous

if TYPE_CHECKING:
    from kernels import Kernel

pytest_plugins = ["kernels"]
pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """As a handler of somebody's own sees it: nothing has been redacted."""
    with caplog.at_level(logging.DEBUG, "jupyter_traindbg"):
        yield caplog


def card_of(pid: int) -> dict[str, str]:
    card = rendezvous.card(rendezvous.directory(pid, 0, root=f"/proc/{pid}/root"))
    assert card is not None
    return card


def test_an_unprepared_process(start: Start, told: pytest.LogCaptureFixture) -> None:
    program = start("train.py", "--sleep", "0.005", env={"HF_TOKEN": "hf_" + "q7" * 16})
    with traindbg.attach(program.pid) as job:
        job.stacks()
        token = card_of(program.pid)["token"]
    lines = told.messages
    for part in (
        "no agent is there",
        "may be entered",
        "may be borrowed: ",
        "has loaded the object",
        "entered (injected)",
    ):
        assert any(f"process {program.pid}" in line and part in line for line in lines), part
    assert len(token) > 16
    for secret in (token, "q7q7"):
        assert not [line for line in lines if secret in line]


def test_a_kernel(kernel: Kernel, told: pytest.LogCaptureFixture) -> None:
    key = kernel.client.session.key.decode()
    with traindbg.attach(f"kernel:{kernel.file}"):
        token = card_of(kernel.pid)["token"]
    lines = told.messages
    for part in ("gives a heartbeat", "its control channel answered execute_request", "entered (kernel)"):
        assert any(part in line for line in lines), part
    for secret in (key, token):
        assert not [line for line in lines if secret in line]
