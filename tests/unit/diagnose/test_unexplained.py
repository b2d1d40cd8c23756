"""No job is called stuck without a finding: whatever its ranks wait for, and whatever could not be seen of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from cases import each
from hang_evidence import MAIN, activity, ended, host, job, rank, stuck, thread, user, waiting

from jupyter_traindbg.diagnose import running
from jupyter_traindbg.diagnose.hang import order
from jupyter_traindbg.diagnose.hang.case import Hit
from jupyter_traindbg.model import Finding, NotAvailable, RankEvidence, Wait
from jupyter_traindbg.model.waits import ENGLISH

WAITS = {f"{kind} {op}": Wait(kind, op or "something") for kind, op in ENGLISH} | {"nothing": None}
"""All that a thread can wait for, and one that runs and uses no CPU."""
NO_CPU = {
    "computes nothing": lambda r: r,
    "nothing in /proc": lambda r: dataclasses.replace(r, activity=NotAvailable("it is closed to this user")),
    "no records": lambda r: dataclasses.replace(r, collectives=NotAvailable("no agent")),
    "from outside": lambda r: dataclasses.replace(r, problem="no agent", pace=NotAvailable("no agent")),
}
UNSEEN = dataclasses.replace(rank(3, [thread((MAIN,), Wait("sleep"))]), looks=(), problem="it may not be traced")
WITH: dict[str, Callable[[RankEvidence], list[RankEvidence]]] = {
    "alone": lambda r: [dataclasses.replace(r, world_size=1)],
    "others wait": lambda r: [r, waiting(1), waiting(2), waiting(3)],
    "all alike": lambda r: [dataclasses.replace(r, rank=n, pid=1000) for n in range(4)],
    "one unseen": lambda r: [r, waiting(1), waiting(2), UNSEEN],
    "one elsewhere": lambda r: [r, waiting(1), RankEvidence(3, 4, 0, 0, "")],
    "one ended well": lambda r: [r, ended(3, exit_code=0)],
}


@each("beside", WITH)
@each("seen", NO_CPU)
@each("wait", WAITS)
def test_a_job_that_is_called_stuck_has_a_finding(wait: str, seen: str, beside: str) -> None:
    one = NO_CPU[seen](stuck(0, user(61, "f"), WAITS[wait], state="waiting"))
    found = running.diagnose(job(*WITH[beside](one), hosts=(host(),)))
    assert found.findings or found.state not in ("stuck", "failed"), (wait, found)
    assert found.findings or found.state != "progressing" or not _at_rest(found.ranks[0].doing), found
    for finding in found.findings:
        assert finding.evidence
        assert finding.next_steps


def _at_rest(doing: str) -> bool:
    return doing.startswith(("waits", "sleeps"))


def test_a_rank_that_cannot_be_seen_is_named_where_all_others_wait() -> None:
    found = running.diagnose(job(*(waiting(n, collectives=NotAvailable("none")) for n in range(3)), UNSEEN))
    (finding,) = found.findings
    assert (found.state, finding.code, finding.who) == ("stuck", "hang_unexplained", ("rank 3",))
    assert finding.title == "Ranks 0-2 wait for rank 3, of which nothing can be seen"
    assert "it may not be traced" in finding.evidence[0]
    assert "ptrace" in finding.next_steps[0]


def test_a_rank_that_stands_still_for_no_reason_that_is_seen_is_named() -> None:
    still = rank(0, [thread(user(61, "f"), state="running")], activity=activity(1000, cpu=0.0))
    (finding,) = running.diagnose(job(still, *(waiting(n) for n in (1, 2, 3)))).findings
    assert list(finding.who) == ["rank 0"]
    assert finding.severity == "critical"


def test_a_loss_that_is_nan_does_not_explain_a_hang() -> None:
    """Both are told: what a training is worth, and that it stands still."""
    hang, loss = Finding("hang_unexplained", "critical", "a"), Finding("nonfinite_loss", "critical", "b")
    assert order.findings([Hit(hang, [0]), Hit(loss, [0])]) == [hang, loss]
    why = Finding("python_wait", "critical", "c")
    assert order.findings([Hit(hang, [0]), Hit(why, [0])]) == [why]
    waits = Finding("dataloader_wait", "warning", "d")
    assert order.findings([Hit(hang, [0]), Hit(waits, [0])]) == [waits]
    harms = Finding("environment", "warning", "e")
    assert order.findings([Hit(hang, [0]), Hit(harms, [0])]) == [hang, harms]
