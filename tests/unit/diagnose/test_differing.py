"""What is different on one rank alone, and what that tells of a ring of sends and receives. From hand-made evidence."""

from __future__ import annotations

import dataclasses
from typing import Any

from cases import each
from hang_evidence import MAIN, NOW_S, TORCH, TRAIN, job, rank, stuck, thread, user, waiting
from standing import thing, value

from jupyter_traindbg.diagnose.hang.case import build
from jupyter_traindbg.diagnose.hang.differing import alone, difference_words
from jupyter_traindbg.diagnose.running import diagnose
from jupyter_traindbg.model import (
    Collective,
    Finding,
    Frame,
    Group,
    RankCollectives,
    RankEvidence,
    Value,
    Variable,
    Wait,
)


def variable(name: str, held: Any, origin: str = "program", owner: str = "main") -> Variable:
    return Variable(name, owner, MAIN, value(held), origin)  # type: ignore[arg-type]


def having(number: int, *variables: Variable) -> RankEvidence:
    return waiting(number, variables=variables)


def differences(*held: Any, origin: str = "program", odd: int = 2) -> list[str]:
    """What `alone` tells of a variable that has these values on the ranks."""
    ranks = [having(n, variable("flag", one, origin)) for n, one in enumerate(held)]
    return [difference_words(one) for one in alone(build(job(*ranks))).get(odd, [])]


@each(
    "held",
    [
        (False, False, True, False),
        (4, 4, 5, 4),
        ("a", "a", "b", "a"),
        ((1, 2), (1, 2), (2, 1), (1, 2)),
        (None, None, thing("Cache"), None),
        (0, 0, False, 0),
        (False, False, True),
    ],
)
def test_one_rank_with_another_value_is_told(held: tuple[Any, ...]) -> None:
    assert len(differences(*held)) == 1


@each(
    "held",
    [
        (1, 1, 1, 1),
        (0, 1, 2, 3),
        (1, 1, 2, 2),
        (1, 1, 2, 3),
        (False, True),
        (Value("other", "Tensor", "Tensor"),) * 3 + (Value("other", "Tensor", "other"),),
        (thing("A", x=1), thing("A", x=1), thing("A", x=2), thing("A", x=1)),
    ],
)
def test_no_rank_is_odd_where_there_is_no_one_against_all_others(held: tuple[Any, ...]) -> None:
    assert [differences(*held, odd=n) for n in range(4)] == [[], [], [], []]


def test_what_has_to_do_with_the_rank_or_counts_is_not_told() -> None:
    assert differences(0, 0, 1, 0, origin="rank") == differences(0, 0, 1, 0, origin="progress") == []


def test_of_what_the_source_does_not_say_the_first_and_the_last_rank_are_not_odd() -> None:
    assert len(differences(0, 0, 1, 0, origin="not known")) == 1
    assert differences(1, 0, 0, 0, origin="not known", odd=0) == []
    assert differences(0, 0, 0, 1, origin="not known", odd=3) == []


def test_the_words_name_the_place_and_both_values() -> None:
    (words,) = differences(False, False, True, False)
    assert words == "rank 2 alone has flag = True at train.py:90 main; the others have False"


def test_one_value_under_two_names_is_told_once() -> None:
    def both(number: int, depth: int) -> RankEvidence:
        return having(number, variable("self.args.depth", depth, owner="Engine"), variable("engine.args.depth", depth))

    found = alone(build(job(both(0, 4), both(1, 4), both(2, 5), both(3, 4))))
    assert [one.variable.name for one in found[2]] == ["self.args.depth"]


# --- rings of sends and receives -----------------------------------------------------------------------------------


def exchanging(number: int, op: str, peer: int, *variables: Variable, tag: int | None = None) -> RankEvidence:
    call = Frame(f"{TORCH}/distributed/distributed_c10d.py", 2500, op, library=True)
    frames = (call, *user(70 + number, "pipeline"))
    return rank(
        number, [dataclasses.replace(thread(frames, Wait("peer", op)), peer=peer, tag=tag)], variables=variables
    )


def verdict(*ranks: RankEvidence) -> Finding:
    (finding,) = diagnose(job(*ranks, world_size=len(ranks))).findings
    return finding


def flag(held: bool) -> Variable:
    return variable("validate", held)


def test_the_rank_of_a_ring_that_has_another_value_is_blamed() -> None:
    finding = verdict(
        exchanging(0, "send", 3, flag(False)),
        exchanging(1, "recv", 0, flag(False)),
        exchanging(2, "recv", 1, flag(False)),
        exchanging(3, "recv", 2, flag(True)),
    )
    assert (finding.code, list(finding.who), finding.where) == (
        "collective_mismatch",
        ["rank 3"],
        f"{TRAIN}:73 pipeline",
    )
    assert finding.evidence[0] == "rank 3 alone has validate = True at train.py:90 main; the others have False"
    assert finding.confidence == "medium"


def test_where_nobody_or_two_have_another_value_the_whole_ring_is() -> None:
    plain = verdict(exchanging(0, "send", 1), exchanging(1, "send", 0), waiting(2, "barrier"), waiting(3, "barrier"))
    assert (plain.code, list(plain.who)) == ("collective_order", ["rank 0", "rank 1"])
    held = [(False, 1), (True, 0), (False, 0), (False, 0)]
    both = [(flag(one), variable("depth", depth)) for one, depth in held]
    two = verdict(
        exchanging(0, "send", 1, *both[0]), exchanging(1, "send", 0, *both[1]),
        waiting(2, "barrier", variables=both[2]), waiting(3, "barrier", variables=both[3]),
    )  # fmt: skip
    assert (two.code, list(two.who)) == ("collective_order", ["rank 0", "rank 1"])
    assert sum("alone has" in line for line in two.evidence) == 2


def test_a_send_and_a_receive_that_face_each_other_have_different_tags() -> None:
    finding = verdict(
        exchanging(0, "send", 1, tag=12), exchanging(1, "recv", 0, tag=11), waiting(2, "barrier"), waiting(3, "barrier")
    )
    assert "has the tag 12, and what is received 11" in finding.cause
    assert "(tag 12)" in finding.evidence[0]
    turned = verdict(
        exchanging(0, "irecv", 1, tag=11),
        exchanging(1, "isend", 0, tag=12),
        waiting(2, "barrier"),
        waiting(3, "barrier"),
    )
    assert "has the tag 12, and what is received 11" in turned.cause
    same = verdict(
        exchanging(0, "send", 1, tag=5), exchanging(1, "recv", 0, tag=5), waiting(2, "barrier"), waiting(3, "barrier")
    )
    assert "tag" not in same.cause


def test_the_rank_of_a_ring_that_is_at_another_tag_than_all_others_is_blamed() -> None:
    ranks = [exchanging(0, "isend", 3, tag=4), exchanging(1, "isend", 2, tag=4), exchanging(2, "isend", 1, tag=9)]
    finding = verdict(*ranks, exchanging(3, "isend", 2, tag=4))
    assert (finding.code, list(finding.who), finding.confidence) == ("collective_mismatch", ["rank 2"], "medium")
    assert finding.evidence[0] == "rank 2 alone is at tag 9; the others are at tag 4"
    assert "with its own tag alone" in finding.cause
    outside = verdict(*ranks[:2], exchanging(2, "isend", 1, tag=4), exchanging(3, "isend", 2, tag=9))
    assert list(outside.who) == ["rank 1", "rank 2"], "it is not in the ring"


def test_where_all_stand_alike_the_one_that_differs_is_blamed() -> None:
    asleep = [stuck(n, user(24, "wait_for_all"), Wait("sleep"), variables=[flag(n == 2)]) for n in range(4)]
    finding = verdict(*asleep)
    assert (finding.code, list(finding.who), finding.confidence) == ("python_wait", ["rank 2"], "low")
    assert finding.title == "Ranks 0-3 sleep at train.py:24 wait_for_all; rank 2 alone is not like the others"
    assert finding.evidence[0] == "rank 2 alone has validate = True at train.py:90 main; the others have False"
    plain = verdict(*(dataclasses.replace(one, variables=[flag(False)]) for one in asleep))
    assert (len(plain.who), "alone" in plain.title) == (4, False)


def test_where_all_wait_for_each_other_the_one_that_differs_is_blamed() -> None:
    waits = [rank(n, [thread(user(30, "pass_on"), Wait("peer", "irecv"))], variables=[flag(n == 1)]) for n in range(4)]
    finding = verdict(*waits)
    assert (finding.code, list(finding.who), finding.confidence) == ("hang_unexplained", ["rank 1"], "low")
    assert finding.title.endswith("; rank 1 alone is not like the others")
    agreed = verdict(*(waiting(n, variables=[flag(n == 1)]) for n in range(4)))
    assert (agreed.code, list(agreed.who)) == ("hang_unexplained", []), "they agree on the call"


def test_a_rank_that_goes_its_own_way_has_what_is_different_there_in_the_evidence() -> None:
    asleep = stuck(2, user(50, "upload"), Wait("sleep"), variables=[flag(True)])
    finding = verdict(*(waiting(n, variables=[flag(False)]) for n in (0, 1, 3)), asleep)
    assert (finding.code, list(finding.who)) == ("python_wait", ["rank 2"])
    assert finding.evidence[-1] == "rank 2 alone has validate = True at train.py:90 main; the others have False"


def test_a_rank_that_waits_for_a_peer_itself_is_not_blamed_for_what_it_did_not_send() -> None:
    """A server that waits for one of its workers; which one nothing tells, and no record has it."""
    call = Collective("0", 37, "recv", p2p=True, peer=0, issued_s=NOW_S - 30)
    group = Group("0", "default_pg", "gloo", (0, 1, 2, 3), 36, 36)

    def worker(number: int) -> RankEvidence:
        found = RankCollectives(number, 1000 + number, "agent", (group,), (call,), waiting_s=30.0)
        return dataclasses.replace(exchanging(number, "recv", 0), collectives=found)

    server = rank(0, [thread(user(37, "collect"), Wait("peer", "irecv"))])
    late = rank(3, [dataclasses.replace(thread(user(61, "push"), Wait("peer", "isend")), peer=0)])
    found = diagnose(job(server, worker(1), worker(2), late))
    assert found.state == "stuck"
    assert [f.code for f in found.findings] == ["hang_unexplained"]
