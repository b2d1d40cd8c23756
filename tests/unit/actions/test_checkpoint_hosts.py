"""A checkpoint of ranks on several hosts: through them alone, in a directory that all share, or else of one rank's weights."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from played_ranks import STILL, Cast, Played, did

from jupyter_traindbg.actions.checkpoint import place as places
from jupyter_traindbg.actions.checkpoint import planning, save
from jupyter_traindbg.errors import ActionRefused, BadCheckpoint, TargetGone


def hosts(tmp_path: Path, cast: Cast, ranks: int, **says: Any) -> list[Played]:
    """Each rank on a host of its own: its pid means nothing here."""
    links = cast(ranks, **{"abort": removed(tmp_path), **says})
    for link in links:
        link.here, link.pid = False, 1
    return links


def removed(tmp_path: Path) -> Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]]:
    """What the lowest rank does when it is told to give up."""

    def abort(params: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
        for left in tmp_path.glob(f".*.partial-{params['ident']}"):
            shutil.rmtree(left, ignore_errors=True)  # all ranks are told at once
        return answer

    return abort


def elsewhere(params: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """What a host tells whose disk is its own."""
    return {**answer, "there": "nothing", "partial": False, "manifest": None}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "SEEN_S", 0.3)


@pytest.mark.parametrize("hung", [False, True])
@pytest.mark.parametrize("kind", ["replicated", "sharded"])
def test_with_a_directory_that_all_see_it_is_one_checkpoint(
    cast: Cast,
    tmp_path: Path,
    kind: str,
    hung: bool,
) -> None:
    links = hosts(tmp_path, cast, 3, survey={"kind": kind, **(STILL if hung else {})})
    made = save(links, str(tmp_path / "ck"), timeout=3)
    assert (made.kind, made.missing_ranks, [r.rank for r in made.ranks]) == (kind, (), [0, 1, 2])
    assert {f.name for f in made.files} == {"rank-0.pt", "rank-1.pt", "rank-2.pt"}
    assert [p.name for p in tmp_path.iterdir()] == ["ck"]
    assert ("take" in did(links)) == hung


def test_a_rank_that_sees_another_disk_leaves_the_weights_to_the_lowest(cast: Cast, tmp_path: Path) -> None:
    links = hosts(tmp_path, cast, 3)
    links[2].says["look"] = elsewhere
    made = save(links, str(tmp_path / "ck"), timeout=3)
    assert (made.missing_ranks, [r.rank for r in made.ranks]) == ((1, 2), [0])
    assert not made.exact
    assert "ranks 1, 2 cannot write there: random generators and loader positions are not in it" in made.inexact
    assert any("rank 2 on another host sees there; all ranks have the same weights" in note for note in made.notes)
    assert [p.name for p in tmp_path.iterdir()] == ["ck"]
    assert did(links).count("begin") == 2, "the attempt of all was undone first"


def test_shards_on_disks_of_their_own_are_refused(cast: Cast, tmp_path: Path) -> None:
    links = hosts(tmp_path, cast, 3, survey={"kind": "sharded"})
    for link in links[1:]:
        link.says["look"] = elsewhere
    with pytest.raises(ActionRefused) as caught:
        save(links, str(tmp_path / "ck"), timeout=3)
    assert f"{tmp_path} of rank 0 is not what ranks 1, 2 on another host see there" in caught.value.cause
    assert "file system that all hosts share" in caught.value.next_step
    assert list(tmp_path.iterdir()) == []
    assert "prepare" not in did(links)


def test_a_host_that_is_slow_to_show_what_was_made_is_waited_for(cast: Cast, tmp_path: Path) -> None:
    links = hosts(tmp_path, cast, 2)
    shown = iter([False])
    links[1].says["look"] = lambda params, answer: {**answer, "partial": next(shown, answer["partial"])}
    assert save(links, str(tmp_path / "ck"), timeout=3).missing_ranks == ()
    assert did(links).count("begin") == 1


def test_a_host_that_is_lost_while_it_is_asked_ends_the_attempt(cast: Cast, tmp_path: Path) -> None:
    links = hosts(tmp_path, cast, 2)
    links[1].says["look"] = TargetGone("its node died")
    with pytest.raises(TargetGone, match="rank 1: its node died"):
        save(links, str(tmp_path / "ck"), timeout=3)
    assert list(tmp_path.iterdir()) == []


def test_what_may_be_left_on_another_host_is_said(cast: Cast, tmp_path: Path) -> None:
    links = hosts(tmp_path, cast, 2, write=TargetGone("its node died"), abort=TargetGone("its node died"))
    with pytest.raises(TargetGone) as caught:
        save(links, str(tmp_path / "ck"), timeout=3)
    assert f"{links[0].partial} may be left there and is no checkpoint" in caught.value.next_step


def test_a_manifest_that_is_not_there_is_no_checkpoint(cast: Cast, tmp_path: Path) -> None:
    links = hosts(tmp_path, cast, 2, commit=lambda params, answer: (tmp_path / "ck" / "manifest.json").unlink())
    with pytest.raises(BadCheckpoint, match=r"there is no manifest\.json"):
        save(links, str(tmp_path / "ck"), timeout=3)


def test_an_answer_that_was_lost_is_looked_up_there(cast: Cast, tmp_path: Path) -> None:
    def lost(params: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
        raise TargetGone("the line broke")

    assert save(hosts(tmp_path, cast, 2, commit=lost), str(tmp_path / "ck"), timeout=3).missing_ranks == ()
    assert (tmp_path / "ck").is_dir()


def test_the_plan_is_that_of_the_host(cast: Cast, tmp_path: Path) -> None:
    links = hosts(tmp_path, cast, 2, look={"free_bytes": 123, "there": "checkpoint"})
    planned = planning.plan(links, str(tmp_path / "ck"), 3)
    assert (planned.free_bytes, planned.there, planned.ranks) == (123, "checkpoint", (0, 1))
    links[0].says["look"] = {"free_bytes": None}
    assert "is not there" in str(planning.plan(links, str(tmp_path / "ck"), 3).free_bytes)
