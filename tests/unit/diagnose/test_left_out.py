"""What ranks look for again and again, and one of them has left out."""

from __future__ import annotations

from typing import Any

from cases import each
from hang_evidence import TRAIN, computing, ended, job, stuck, user, waiting

from jupyter_traindbg.diagnose.running import diagnose
from jupyter_traindbg.model import Diagnosis, PolledFile, RankEvidence, Value, Variable, Wait

SLEEPS = user(24, "wait_for_all")
FOLDER = PolledFile("/data/marks", unmade="part-2.done", unmade_by=2)
MISSING = PolledFile("/data/best.txt", there=False)


def looking(number: int, *files: PolledFile, **more: Any) -> RankEvidence:
    return stuck(number, SLEEPS, Wait("sleep"), polled=files, **more)


def asking(number: int, key: str = "best-4") -> RankEvidence:
    store = Variable("store", "wait_for_all", SLEEPS[0], Value("store", "TCPStore", f"TCPStore, {key!r}"))
    return stuck(number, SLEEPS, Wait("sleep"), looks_at=(store,))


def blocked(number: int, key: str = "best-4") -> RankEvidence:
    return stuck(number, SLEEPS, Wait("store", "wait", key))


def verdict(*ranks: RankEvidence) -> Diagnosis:
    return diagnose(job(*ranks, world_size=len(ranks)))


def blamed(found: Diagnosis) -> list[tuple[str, list[str]]]:
    return [(f.code, list(f.who)) for f in found.findings]


def test_the_rank_whose_file_alone_is_missing_is_blamed() -> None:
    found = verdict(*(looking(n, FOLDER) for n in range(4)))
    (finding,) = found.findings
    assert (found.state, finding.code, list(finding.who), finding.confidence) == (
        "stuck",
        "python_wait",
        ["rank 2"],
        "high",
    )
    assert finding.title == (
        "Rank 2 has left out the file /data/marks/part-2.done, for which ranks 0, 1, 3 look at train.py:24 wait_for_all"
    )
    assert finding.evidence[0] == "those of all other ranks are there"
    named = PolledFile("/data/marks/part-2.done", there=False, unmade="part-2.done", unmade_by=2)
    gone_on = verdict(looking(0, named), looking(1, named), waiting(2, "barrier"), looking(3, named))
    assert blamed(gone_on) == [("python_wait", ["rank 2"])]
    assert gone_on.findings[0].where == f"{TRAIN}:42 train_step"
    assert "/data/marks/part-2.done, for which" in gone_on.findings[0].title


def test_a_rank_that_works_or_is_stuck_itself_is_told_by_that() -> None:
    others = [looking(n, FOLDER) for n in (0, 1, 3)]
    working = verdict(*others, computing(2))
    assert (working.state, blamed(working)) == ("progressing", [("cpu_phase", ["rank 2"])])
    another = verdict(*(looking(n, FOLDER) for n in (0, 2, 3)), computing(1))
    assert (another.state, blamed(another)) == ("progressing", [("cpu_phase", ["rank 1"])])
    left = verdict(*others, ended(2, exit_code=0))
    assert (left.state, blamed(left)) == ("failed", [("rank_ended", ["rank 2"])])
    reading = verdict(*others, stuck(2, user(70, "load"), Wait("network", "read")))
    assert (reading.state, blamed(reading)) == ("stuck", [("io_wait", ["rank 2"])])


@each(
    "of",
    [
        lambda n: looking(n, MISSING),
        asking,
        blocked,
        lambda n: blocked(n) if n else asking(n),
    ],
)
def test_what_all_but_one_look_for_that_one_has_left_out(of: Any) -> None:
    found = verdict(of(0), of(1), waiting(2, "barrier"), of(3))
    (finding,) = found.findings
    assert (finding.code, list(finding.who), finding.confidence) == ("python_wait", ["rank 2"], "medium")
    assert "ranks 0, 1, 3 look at train.py:24 wait_for_all" in finding.title
    assert ("/data/best.txt" in finding.title) != ("key best-4" in finding.title)
    assert "all ranks but rank 2 look for it" in finding.evidence


@each(
    "ranks, who",
    [
        ([looking(0, MISSING), waiting(1), waiting(2), waiting(3)], ["rank 0"]),
        ([asking(0), asking(1, "other"), waiting(2), waiting(3)], ["rank 0", "rank 1"]),
        ([looking(0, MISSING), waiting(1)], ["rank 0"]),
    ],
)
def test_who_looks_alone_is_blamed_for_that(ranks: list[RankEvidence], who: list[str]) -> None:
    assert blamed(verdict(*ranks)) == [("python_wait", who)]
