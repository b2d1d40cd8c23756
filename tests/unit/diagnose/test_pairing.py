"""Which calls answer each other: programs as letters, a line each, and what is said of their ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cases import each

from jupyter_traindbg.diagnose.collectives import mispaired as told
from jupyter_traindbg.diagnose.collectives.joined import join
from jupyter_traindbg.diagnose.collectives.pairing import Mispaired, compared, mispaired
from jupyter_traindbg.model import CallSite, CallSites, Collective, Fork, ForkAt, Frame, Group, RankCollectives

FILE = "/home/ada/train.py"
JOIN = "/v/lib/python3.11/site-packages/torch/distributed/algorithms/join.py"
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
Forks = Mapping[ForkAt, Fork]


def line(letter: str) -> int:
    return 10 * (LETTERS.index(letter) + 1)


def place(letter: str, op: str = "all_reduce") -> CallSite:
    return CallSite(op, (Frame(FILE, line(letter), "main"),))


def sites(calls: str, first: int = 1, op: str = "all_reduce") -> CallSites:
    letters = sorted(set(calls))
    at = {n: letters.index(letter) for n, letter in enumerate(calls, first)}
    return CallSites(tuple(place(letter, op) for letter in letters), {"0": at})


def record(rank: int, world: int, last: int, backend: str = "gloo") -> RankCollectives:
    group = Group("0", "default_pg", backend, tuple(range(world)), last, last)
    return RankCollectives(
        rank, 100 + rank, "agent", (group,), (Collective("0", last, "all_reduce", state="completed"),)
    )


def nowhere_apart(*calls: str) -> Forks:
    """All lines follow each other."""
    lines = sorted({line(letter) for one in calls for letter in one})
    return {(FILE, a, b): Fork(apart=False) for a in lines for b in lines if a < b}


def either(forks: Forks, *pairs: str) -> Forks:
    """`pairs` of letters are arms of a branch."""
    return {**forks, **{(FILE, *sorted((line(a), line(b)))): Fork(apart=True) for a, b in pairs}}


def of(*calls: str, forks: Forks | None = None, first: int = 1, backend: str = "gloo") -> Mispaired | None:
    """The calls of each rank, a letter each."""
    known = nowhere_apart(*calls) if forks is None else forks
    records = [record(r, len(calls), len(one) + first - 1, backend) for r, one in enumerate(calls)]
    own = {rank: sites(one, first) for rank, one in enumerate(calls)}
    found = mispaired(join(records, len(calls)), own, known)
    assert len(found) <= 1
    return found[0] if found else None


LOOP = "BCD" * 10


@each(
    "calls, ranks, kind, number, behind",
    [
        ((LOOP + "A" + LOOP, LOOP + LOOP + "B", LOOP + LOOP + "B"), [0], "extra", 31, 1),
        ((LOOP + "A" + LOOP, LOOP + LOOP + "B"), [0], "extra", 31, 1),
        ((LOOP + LOOP + "B", LOOP + "A" + LOOP), [1], "extra", 31, 1),
        ((LOOP + LOOP + "B", LOOP + "CD" + LOOP, LOOP + LOOP + "B"), [1], "left out", 31, -1),
        ((LOOP + LOOP + "B", LOOP + "CD" + LOOP), [1], "left out", 31, -1),
        (("BBBBBBBABBBBBBB", "BBBBBBBBBBBBBBB"), [0], "extra", 8, None),
        (("XAXAXAXAXABAXAXAXA"[1:], "XAXAXAXAXAXAXAXAXA"[1:]), [0], "extra", 10, 0),
        ((LOOP + "A" + LOOP + "CD" + LOOP, LOOP + LOOP + LOOP + LOOP[:3], LOOP * 3 + LOOP[:3]), [0], "extra", 31, 0),
        (("FG" * 7 + "F" + "FG" * 9, "FG" * 17), [0], "left out", 16, -1),
        (("FG" * 17, "FG" * 7 + "F" + "FG" * 9), [1], "left out", 16, -1),
        (("ABC" * 9, "BAC" * 9, "BAC" * 9), [0], "other order", 1, None),
        (("ABC" * 12, "ABC" * 6 + "BAC" + "ABC" * 5), [1], "other order", 19, 0),
    ],
)
def test_who_fell_out_of_step_and_how(
    calls: Sequence[str], ranks: list[int], kind: str, number: int, behind: int | None
) -> None:
    short = min(map(len, calls))
    found = of(*(one[:short] for one in calls))
    assert found is not None
    assert (found.ranks, found.kind, found.number, found.behind) == (ranks, kind, number, behind)
    assert sorted((*found.ranks, *found.others)) == list(range(len(calls)))
    assert found.total == short


@each(
    "calls, arms",
    [
        ((LOOP, LOOP, LOOP), ()),
        (("ABAB" * 5, "CBCB" * 5), ()),  # each has a line of its own
        (("AXBX" * 5, "BXAX" * 5), ("AB",)),
        (("AXXXXBXXXX" * 2, "BXXXXXXXXX" * 2), ("AB", "AX", "BX")),
        (("AAAAAABBB" * 3, "AAAABBBBB" * 3), ()),  # who has finished answers
        (("AAAAAABBBCC" * 3, "AAAABBBBBCC" * 3, "AAAAAAAABCC" * 3), ()),
        (("ABABABCDCD" * 3, "ABABCDCDCD" * 3), ()),
        (("AAAAAAAA", "AAAAABBB"), ()),  # and goes on answering
        (("AAAAAAAB", "AAAAAAAA"), ()),  # just now
        (("SGGL" * 5 + "ABBCA" * 1 + "SGGLS", "SGGL" * 6 + "ASGGLA"[:6]), ()),
    ],
)
def test_what_is_meant_is_no_mistake(calls: Sequence[str], arms: Sequence[str]) -> None:
    assert of(*calls, forks=either(nowhere_apart(*calls), *arms)) is None


def test_an_epoch_that_is_shorter_shifts_everything_after_it() -> None:
    """Not an answer until all have finished: the phases after it do not begin together."""
    found = of(("X" * 8 + "Y" * 4 + "Z") * 4, (("X" * 7 + "Y" * 4 + "Z") * 5)[: 13 * 4])
    assert found is not None
    assert found.number == 8


@each("calls", [((LOOP + "A" + LOOP)[:50], (LOOP + LOOP)[:50]), ("ABCABC" * 4, "BCABCA" * 4)])
def test_without_the_source_a_shift_proves_it(calls: Sequence[str]) -> None:
    assert of(*calls, forks={}) is not None


@each("calls", [("AXBXBXAX" * 3, "BXAXBXAX" * 3), ("XXAXXXX", "XXBXXAX")])
def test_without_the_source_nothing_else_does(calls: Sequence[str]) -> None:
    assert of(*calls, forks={}) is None
    assert of(*calls) is not None


def test_tasks_that_ranks_take_in_turns_are_no_shift() -> None:
    """Methods of one name, which the source does not tell apart: one call of the four of a step."""
    assert of("XYZAXYZBXYZC" * 4, "XYZBXYZCXYZA" * 4, forks={}) is None


def test_an_order_that_differs_at_every_step_proves_it_as_well() -> None:
    assert of("XXABXXABXXABXX", "XXBAXXBAXXBAXX", forks={}) is not None
    assert of("XXABXXABXXABXX", "XXBAXXABXXABXX", forks={}) is None


def test_what_was_shifted_before_the_record_begins() -> None:
    """gloo counts steps of a monitored barrier, which differ between ranks, as well: there only the first calls of all tell."""
    ours, theirs = "ABCDE" * 6, "BCDEA" * 6
    shifted = of(ours, theirs, first=500, backend="nccl")
    assert shifted is not None
    assert (shifted.before, abs(shifted.behind or 0)) == (False, 1)
    assert of(ours, theirs, first=500) is None
    assert of(ours, theirs) is not None


def test_numbers_that_differ_between_ranks_are_not_compared() -> None:
    own = {0: sites("ABCDEF"), 1: CallSites(sites("ABCDEF").sites, {"0": {1: 0, 2: 2, 4: 4, 5: 5, 6: 1}})}
    groups = join([record(r, 2, 6) for r in range(2)], 2)
    assert mispaired(groups, own, nowhere_apart("ABCDEF")) == []
    assert compared(groups, own) == 0


def test_the_context_for_uneven_inputs_answers_for_ranks_without_any() -> None:
    shadow = CallSite("all_reduce", (Frame(JOIN, 270, "__exit__", library=True), Frame(FILE, 5, "main")))
    answering = CallSites((place("A"), shadow), {"0": {1: 0, 2: 1, 3: 1, 4: 0, 5: 0}})
    groups = join([record(r, 2, 5) for r in range(2)], 2)
    assert mispaired(groups, {0: sites("AAAAA"), 1: answering}, {(FILE, 5, 10): Fork(apart=False)}) == []


def test_calls_that_go_by_different_names() -> None:
    forks = {(FILE, 10, 20): Fork(apart=True, names=("loss", "accuracy"))}
    found = of("ABAAB" * 3, "BBAAB" * 3, forks=forks)
    assert found is not None
    assert (found.kind, found.names, found.sure, found.count) == ("names", ("loss", "accuracy"), False, 3)
    own = {rank: sites(calls, op="barrier") for rank, calls in enumerate(("ABAAB" * 3, "BBAAB" * 3))}
    assert mispaired(join([record(r, 2, 15) for r in range(2)], 2), own, forks) == []


def test_what_is_said() -> None:
    calls = (LOOP + "A" + LOOP, LOOP + LOOP + "B", LOOP + LOOP + "B")
    own = {rank: sites(one) for rank, one in enumerate(calls)}
    records = [record(r, 3, 61) for r in range(3)]
    (finding,) = told.findings(records, 3, own, nowhere_apart(*calls))
    assert (finding.code, finding.severity, finding.confidence) == ("collective_mispaired", "warning", "high")
    assert (list(finding.ranks), finding.where) == ([0], f"{FILE}:10 main")
    assert str(finding.title) == (
        "Rank 0 issued #31 of the default group at train.py:10 main, and ranks 1, 2 at train.py:20 main: "
        "two calls that do not belong together"
    )
    assert list(map(str, finding.evidence)) == [
        "rank 0: all_reduce #31 at train.py:10 main",
        "ranks 1, 2: all_reduce #31 at train.py:20 main",
        "31 of the last 61 calls of this group are paired wrongly (#31 to #61)",
        "now rank 0: 1 call behind ranks 1, 2, each is answered by another one than its own",
    ]
    assert told.count(records, 3, own) == 61


def test_who_is_to_blame_is_left_open_where_nothing_tells() -> None:
    calls = ("ABC" * 9, "BAC" * 9)
    own = {rank: sites(one) for rank, one in enumerate(calls)}
    (finding,) = told.findings([record(r, 2, 27) for r in range(2)], 2, own, nowhere_apart(*calls))
    assert (list(finding.ranks), finding.confidence) == ([0, 1], "medium")


def test_in_a_job_that_stands_still_it_is_the_reason_only_where_ranks_are_out_of_step_to_the_end() -> None:
    def severity(*calls: str) -> str:
        own = {rank: sites(one) for rank, one in enumerate(calls)}
        records = [record(r, len(calls), len(calls[0])) for r in range(len(calls))]
        (finding,) = told.findings(records, len(calls), own, nowhere_apart(*calls), stuck=True)
        return finding.severity

    assert severity(LOOP + "A" + LOOP, LOOP + LOOP + "B") == "critical"
    assert severity(LOOP + "A" + "BB", LOOP + "B" + "BB") == "critical"  # a moment ago
    assert severity("BBBA" + "B" * 20, "B" * 24) == "warning"  # long ago
    assert severity(LOOP + "AB" + LOOP, LOOP + "BA" + LOOP) == "warning"
