"""A link to a process that has ended: how, also when its parent has taken note of it, and never on to another one of its number."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
from support import until

from jupyter_traindbg.attach import process
from jupyter_traindbg.attach.base import Link
from jupyter_traindbg.errors import TargetGone
from jupyter_traindbg.job import Job
from jupyter_traindbg.model import TargetName
from jupyter_traindbg.outside import procfs


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A Python that sleeps; whatever becomes of it, nobody waits for it before the end of the test."""
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)"]) as started:
        yield started
        started.kill()


def die(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    until(lambda: not procfs.exists(child.pid), "it dies")


def test_how_it_ended_is_remembered_when_its_parent_has_taken_note(child: subprocess.Popen[bytes]) -> None:
    link, late = process.link(child.pid), process.link(child.pid)
    twin = link.twin()
    assert link.ended() is None
    die(child)
    assert str(link.ended()).startswith(f"process {child.pid} has ended: killed by SIGKILL; ")
    child.wait(10)
    gone = link.ended()
    assert gone is not None
    assert gone.cause == f"process {child.pid} has ended: killed by SIGKILL", "noted while it could be seen"
    assert (again := twin.ended()) is not None
    assert again.cause == gone.cause, "two lines to one process know the same of it"
    assert (unknown := late.ended()) is not None
    assert unknown.cause == f"process {child.pid} has ended", "nobody had looked in time"


def test_another_process_with_its_number_is_not_touched(child: subprocess.Popen[bytes]) -> None:
    started = procfs.start_ticks(child.pid)
    assert started is not None
    link = Link(child.pid, lambda deadline_s: pytest.fail("it was entered"), started=started - 1)
    job = Job(str(child.pid), [link])
    for ask in (
        link.enter,
        lambda s: link.call("steps", {}, s),
        lambda s: job.stacks(timeout=s),
        lambda s: job.environ(timeout=s),
    ):
        with pytest.raises(TargetGone, match=f"process {child.pid} has ended"):
            ask(5.0)
    assert link.answering() is None
    verdict = job.diagnose(timeout=5.0)
    assert [(rank.state, rank.pid) for rank in verdict.ranks] == [("ended", child.pid)]
    assert verdict.silent == ()


def test_a_zombie_is_nothing_to_be_attached_to(child: subprocess.Popen[bytes]) -> None:
    die(child)
    (link,) = process.links(TargetName("process", str(child.pid)), 5.0)
    with pytest.raises(TargetGone, match=r"killed by SIGKILL; `traindbg diagnose` tells how"):
        Job(str(child.pid), [link]).enter(5.0)
    assert not link.noted.logs, "its descriptors are closed"
