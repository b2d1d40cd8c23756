"""What is kept of a Ray job's processes on one host: until it is closed, and not after that."""

from __future__ import annotations

import os
from typing import Any

import pytest

from jupyter_traindbg.errors import ActionRefused, TargetGone
from jupyter_traindbg.job import Job
from jupyter_traindbg.spread import part


def test_a_late_question_begins_nothing_for_a_job_of_ray_that_is_closed() -> None:
    roster = part.Roster("a key", "ray:01000000@127.0.0.1:6379", (part.Member(os.getpid(), 0, 1, "rank 0", True),))
    assert part.entered(roster) == []
    part.close(roster.key)
    for ask in (lambda: part.enter(roster, 1.0), lambda: part.new_steps(roster, None, 1.0)):
        with pytest.raises(TargetGone, match=r"ray:01000000@127\.0\.0\.1:6379\) is closed"):
            ask()
    assert roster.key not in part._parts


def test_a_job_of_ray_that_is_not_let_go_is_open_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    roster = part.Roster("another", "ray:01000000@127.0.0.1:6379", (part.Member(os.getpid(), 0, 1, "rank 0", True),))

    def refused(job: Job, **words: Any) -> None:
        raise ActionRefused("it would end on rank 0 alone", "detach all")

    with monkeypatch.context() as patch:
        patch.setattr(Job, "detached", refused)
        with pytest.raises(ActionRefused):
            part.detach(roster, False, 1.0)
    assert part.entered(roster) == []
    assert part.detach(roster, True, 5.0).processes == 0
    with pytest.raises(TargetGone, match="is closed"):
        part.entered(roster)
