"""Process groups that ranks do not make alike: who makes which, who counts differently, and who does something else meanwhile."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from cases import each
from hang_evidence import TORCH, activity, job, rank, records, stepping, stuck, thread, user, waiting

from jupyter_traindbg.diagnose import running
from jupyter_traindbg.model import Diagnosis, Finding, Frame, Group, Making, NotAvailable, RankEvidence, Wait

NEW_GROUP = (
    Frame(f"{TORCH}/distributed/distributed_c10d.py", 2169, "_new_process_group_helper", library=True),
    Frame(f"{TORCH}/distributed/distributed_c10d.py", 5745, "new_group", library=True),
    *user(30, "make_groups"),
)
A, B, ALL = (0, 1, 2), (1, 2, 3), (0, 1, 2, 3)
Groups = Mapping[str, Sequence[int]]


def making(number: int, name: str, ranks: Sequence[int], made: Groups | None = None) -> RankEvidence:
    """A rank that waits in ``new_group``; `made` are the groups that it has, by their names."""
    frames = [thread(NEW_GROUP, Wait("init", "new_group"))]
    return with_groups(rank(number, frames, making=Making(name, tuple(ranks)), collectives=records(number)), made)


def with_groups(of: RankEvidence, made: Groups | None) -> RankEvidence:
    found = of.collectives
    assert not isinstance(found, NotAvailable)
    more = [Group(name, "", "gloo", tuple(ranks), 0, 0) for name, ranks in (made or {}).items()]
    default = dataclasses.replace(found.groups[0], ranks=ALL)
    return dataclasses.replace(of, collectives=dataclasses.replace(found, groups=(default, *more)))


def judged(*ranks: RankEvidence, **more: Any) -> Diagnosis:
    return running.diagnose(job(*ranks, **more))


def first(found: Diagnosis) -> Finding:
    assert (found.state, len(found.findings)) == ("stuck", 1), found.findings
    return found.findings[0]


def test_who_makes_the_groups_in_another_order_is_named() -> None:
    right = [making(n, "1", A) for n in (0, 1)]
    found = first(judged(*right, making(2, "1", B), making(3, "2", B)))
    assert (found.code, found.who, found.confidence) == ("collective_order", ("rank 2",), "high")
    assert found.where == "/home/ada/train.py:30 make_groups"
    assert "process group 1 is that of ranks 0-2 for ranks 0, 1, but that of ranks 1-3 for rank 2" in found.title
    assert "ranks 0, 1 wait for process group 1, of ranks 0-2, at train.py:30 make_groups" in found.evidence


def test_who_passed_a_number_by_with_another_group_is_named() -> None:
    """Rank 0 is no member of B, which it made first: it does not wait for it."""
    others = [making(n, "1", A) for n in (1, 2)]
    found = first(judged(making(0, "2", A), *others, making(3, "2", B)))
    assert found.who == ("rank 0",)
    assert "but another one for rank 0" in found.title


def test_who_has_passed_a_number_by_is_a_witness_against_who_takes_it_for_a_member() -> None:
    """One against one, but rank 2 is none of the group that it has made as number 1."""
    found = first(judged(making(0, "1", (0, 1)), making(1, "1", (1, 2)), making(2, "2", (1, 2)), world_size=3))
    assert found.who == ("rank 1",)
    assert found.title.endswith("process group 1 is that of ranks 0, 1 for rank 0, but that of ranks 1, 2 for rank 1")
    sizes = [with_groups(waiting(n), {"1": (0, 1)}) for n in (0, 1)]
    assert judged(*sizes, making(2, "2", (2, 3)), making(3, "1", ALL)).findings[0].who == ("rank 3",)


def test_a_member_that_is_past_the_making_of_groups_is_a_witness_against_itself() -> None:
    """Under number 2 it is one against one; rank 0 waits for rank 1 under number 3, of which that one made none."""
    past = {1: {"2": (1,)}, 2: {"1": (0, 2), "4": (2, 3)}, 3: {"2": (1, 3), "4": (2, 3)}}
    rest = [with_groups(waiting(n, "barrier"), made) for n, made in past.items()]
    found = judged(making(0, "3", (0, 1), {"1": (0, 2)}), *rest).findings[0]
    assert (found.code, found.who) == ("collective_order", ("rank 1",))
    assert "process group 2 is that of rank 1 for rank 1, but that of ranks 1, 3 for rank 3" in found.title


def test_as_many_on_each_side_are_all_named() -> None:
    pairs = [making(n, "1", (0, 1)) for n in (0, 1)] + [making(n, "1", (2, 3)) for n in (2, 3)]
    assert first(judged(*pairs)).who == ("rank 0", "rank 1", "rank 2", "rank 3")


def test_groups_that_have_been_made_tell_as_well() -> None:
    done = [with_groups(waiting(n), {"1": (0, 1)}) for n in (0, 1, 2)]
    found = judged(*done, making(3, "1", (2, 3))).findings[0]
    assert (found.code, found.who) == ("collective_order", ("rank 3",))
    assert any("rank 3 has not issued all_reduce" in e.lower() for e in found.evidence)


def test_the_place_is_where_groups_are_made_also_where_who_is_out_of_order_is_past_it() -> None:
    ahead = with_groups(waiting(2), {"1": (2,)})
    found = judged(*(making(n, "1", (0, 1, 2)) for n in (0, 1)), ahead, making(3, "2", ALL)).findings[0]
    assert (found.who, found.where) == (("rank 2",), "/home/ada/train.py:30 make_groups")
    late = first(judged(*(making(n, "1", ALL) for n in (0, 1, 2)), waiting(3)))
    assert late.where == "/home/ada/train.py:42 train_step", "it makes none: what it does instead"


def test_a_call_on_a_group_that_others_know_otherwise() -> None:
    """NCCL makes its connections with the first call: nobody waits in new_group."""
    other = {"1": (0, 1, 2, 3)}
    late = [with_groups(waiting(n), {"1": (0, 1)}) for n in (0, 1)] + [with_groups(waiting(n), other) for n in (2, 3)]
    calls = [dataclasses.replace(r, collectives=on_group("1", r)) for r in late]
    assert judged(*calls).findings[0].code == "collective_order"
    plain = judged(*late).findings
    assert "collective_order" not in {f.code for f in plain}, "what they wait in is the default group"


def on_group(name: str, of: RankEvidence) -> Any:
    found = of.collectives
    assert not isinstance(found, NotAvailable)
    return dataclasses.replace(found, calls=(dataclasses.replace(found.calls[-1], group=name, sequence=1),))


def test_a_rank_that_left_out_a_group_of_which_it_is_no_member() -> None:
    more = [making(n, "2", ALL, {"1": (0, 1)}) for n in (0, 1)]
    found = first(judged(*more, making(2, "1", ALL), making(3, "1", ALL)))
    assert (found.code, found.who) == ("collective_order", ("rank 2", "rank 3"))
    assert "Ranks 2, 3 have made fewer process groups than the others" in found.title


def test_the_same_group_under_other_numbers() -> None:
    found = first(judged(*(making(n, "2", ALL) for n in (0, 1, 3)), making(2, "1", ALL)))
    assert found.who == ("rank 2",)
    assert "Rank 2 has made fewer process groups than the others" in found.title
    found = first(judged(*(making(n, "1", ALL) for n in (0, 1, 3)), making(2, "2", ALL, {"1": (2,)})))
    assert found.who == ("rank 2",)
    assert "Rank 2 has made more process groups than the others" in found.title


HASHED = "0fa5d1", "77c2be"


def test_members_that_make_their_groups_by_themselves_wait_for_each_other() -> None:
    found = first(judged(*(making(n, HASHED[0], A) for n in (0, 1)), *(making(n, HASHED[1], B) for n in (2, 3))))
    assert (found.code, len(found.who)) == ("collective_order", 4)
    assert "each waits for the others" in found.title
    assert "use_local_synchronization" in found.cause
    odd = first(judged(making(0, HASHED[0], A), making(1, HASHED[0], A), making(2, HASHED[1], B), waiting(3)))
    assert odd.who == ("rank 2",)


def test_the_same_group_under_other_hashes() -> None:
    found = first(judged(*(making(n, HASHED[0], ALL) for n in (0, 1, 3)), making(2, HASHED[1], ALL)))
    assert found.who == ("rank 2",)
    assert "other process groups than the others" in found.title


def test_who_alone_makes_a_group_is_named() -> None:
    found = first(judged(making(0, "1", ALL), *(waiting(n) for n in (1, 2, 3))))
    assert (found.code, found.who) == ("collective_mismatch", ("rank 0",))
    assert "Rank 0 waits for process group 1, of ranks 0-3," in found.title
    assert "but ranks 1-3 wait in a collective instead" in found.title


def test_who_does_not_make_the_group_of_the_others_is_named() -> None:
    found = first(judged(*(making(n, "1", ALL) for n in (0, 1, 2)), waiting(3)))
    assert (found.code, found.who) == ("collective_mismatch", ("rank 3",))


def test_who_is_held_up_by_something_else_is_told_by_that() -> None:
    found = judged(*(making(n, "1", ALL) for n in (0, 1, 2)), stuck(3, user(61, "wait_for_quota"), Wait("sleep")))
    assert [f.code for f in found.findings] == ["python_wait"]


def test_other_steps_are_not_said_where_groups_are_made_in_another_order() -> None:
    """They stand at different lines of a loop; that is of no account."""
    ranks = [making(0, "1", (0,)), *(making(n, "1", (0, n)) for n in (1, 2, 3))]
    assert {f.code for f in judged(*ranks).findings} == {"collective_order"}


ALIKE = {
    "all make the same": [making(n, "1", ALL) for n in range(4)],
    "one after another": [making(n, "2", ALL, {"1": (0, 1)} if n < 2 else None) for n in range(4)],
}


@each("name", ALIKE)
def test_ranks_that_make_the_same_group_may_need_a_moment(name: str) -> None:
    found = judged(*ALIKE[name])
    assert (found.state, found.findings) == ("not known", ())
    assert "process group together" in found.why[-1]
    assert running.settles_in_s(job(*ALIKE[name])) == 2.0
    late = judged(*(dataclasses.replace(r, activity=activity(r.pid, running_s=3000.0)) for r in ALIKE[name]))
    assert (late.state, late.findings[0].code) == ("stuck", "hang_unexplained")


def test_in_a_job_that_goes_on_a_group_is_waited_for_that_never_comes_about() -> None:
    """Rank 3 has made one of its own under that number, and trains on alone: only that the members differ tells that the rest hangs."""
    ranks = [making(n, "1", A) for n in (0, 1)]
    alone = with_groups(stepping(3), {"1": (3,)})
    found = first(judged(*ranks, making(2, "1", A), alone))
    assert (found.code, found.who, found.confidence) == ("collective_order", ("rank 3",), "high")
    assert judged(*ranks, making(2, "1", A), with_groups(stepping(3), {})).findings == ()
    expected = [making(n, "1", ALL) for n in (0, 1, 2)]
    assert first(judged(*expected, with_groups(stepping(3), {"2": (3,)}))).who == ("rank 3",)


def test_groups_that_differ_are_left_alone_in_a_job_that_goes_on_without_them() -> None:
    ranks = [making(n, "2", A) for n in (0, 1)]
    assert judged(*ranks, *(with_groups(stepping(n), {"1": (n,)}) for n in (2, 3))).findings == ()
