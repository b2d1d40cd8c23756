"""What is decided when a checkpoint is taken: who is refused, when a job counts as hung, and that every failure is undone on all ranks.

The ranks are played at the lowest layer, `Link.call`; the real ones are in tests/integration/test_checkpoint.py.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
from played_ranks import GOING, NOT_YET, STILL, SURVEY, Cast, Played, did

from jupyter_traindbg.actions import checkpoint
from jupyter_traindbg.actions.checkpoint import save
from jupyter_traindbg.agent.saying import packed, said
from jupyter_traindbg.attach.base import Link
from jupyter_traindbg.errors import (
    ActionRefused,
    BadCheckpoint,
    DeadlineExceeded,
    ProbeFailed,
    StepOver,
    TargetGone,
    TraindbgError,
)
from jupyter_traindbg.model import Checkpoint, NotAvailable


def refused(links: list[Played], directory: Path, **options: Any) -> TraindbgError:
    """The error of a save that must fail, after nothing is found to be left of it and all ranks were told, where anything was begun."""
    there = sorted(p.name for p in directory.parent.iterdir())
    with pytest.raises(TraindbgError) as caught:
        save(links, str(directory), **{"timeout": 1.0, **options})
    assert sorted(p.name for p in directory.parent.iterdir()) == there
    if "begin" in did(links):
        for link in links:
            assert [do for do in did(links, link.rank) if do != "survey"][-1] == "abort"
    assert "\n" not in str(caught.value)
    return caught.value


# --- what goes well --------------------------------------------------------------------------------------------------


def test_a_healthy_job_is_saved_at_a_boundary(cast: Cast, tmp_path: Path) -> None:
    links = cast(1)
    seen: list[tuple[int, int]] = []
    result = save(links, str(tmp_path / "ck"), progress=lambda done, total: seen.append((done, total)))
    assert did(links) == ["survey", "begin", "prepare", "outcome", "write", "progress", "commit", "abort"]
    assert (result.taken, result.exact, result.mixed, result.kind) == ("loop boundary", True, False, "replicated")
    assert [(r.step, r.steps, r.pause_s) for r in result.ranks] == [(6, (13,), 0.001)]
    assert [(f.name, f.bytes, f.rank) for f in result.files] == [("rank-0.pt", 3, 0)]
    assert result.findings == ()
    assert seen[-1] == (3, 3)


def test_two_ranks_agree_on_a_step_and_only_the_lowest_writes_the_weights(cast: Cast, tmp_path: Path) -> None:
    links = cast(2)
    result = save(links, str(tmp_path / "ck"))
    assert [link.params["prepare"]["weights"] for link in links] == [True, False]
    prepared = [link.params["prepare"] for link in links]
    assert prepared[0]["after_step"] == prepared[1]["after_step"] > 5
    assert prepared[0]["decision"] == prepared[1]["decision"] is not None
    assert did(links).count("begin") == did(links).count("commit") == 1
    assert result.exact


def test_an_attempt_that_came_too_late_is_no_end_of_the_checkpoint(cast: Cast, tmp_path: Path) -> None:
    late = iter([StepOver("step 9 was over")])

    def prepare(params: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
        for error in late:
            raise error
        return answer

    links = cast(2)
    links[1].says["prepare"] = prepare
    assert save(links, str(tmp_path / "ck")).exact
    assert did(links).count("prepare") == 4
    assert "cancel" in did(links)
    assert did(links).index("commit") < did(links).index("abort"), "ranks are only let go"


def test_a_hung_job_is_saved_as_it_stands(cast: Cast, tmp_path: Path) -> None:
    links = cast(2, survey=STILL)
    result = save(links, str(tmp_path / "ck"))
    assert "prepare" not in did(links)
    assert [link.params["take"]["weights"] for link in links] == [True, False]
    assert (result.taken, result.exact) == ("hung", True)


def test_one_rank_that_stands_still_is_enough_for_a_hung_job(cast: Cast, tmp_path: Path) -> None:
    links = cast(2)
    links[1].says["survey"] = STILL
    assert save(links, str(tmp_path / "ck")).taken == "hung"


def test_all_ranks_of_a_sharded_job_write_weights_by_the_merged_plan(cast: Cast, tmp_path: Path) -> None:
    links = cast(2, survey={**STILL, "kind": "sharded"})
    result = save(links, str(tmp_path / "ck"))
    assert [link.params["take"]["weights"] for link in links] == [True, True]
    assert links[0].params["begin"]["bytes"] == 2000
    assert [link.params["write"]["plan"] for link in links] == [{"final": 0}, {"final": 1}]
    assert result.kind == "sharded"


def test_a_job_that_hangs_just_then_is_saved_as_it_stands(cast: Cast, tmp_path: Path) -> None:
    paces = iter([GOING])
    links = cast(1, survey=lambda params, answer: {**answer, **next(paces, STILL)}, outcome=NOT_YET, pace=STILL)
    result = save(links, str(tmp_path / "ck"))
    assert result.taken == "hung"
    assert "it made steps when asked, and then none" in result.notes
    assert did(links).count("begin") == 2
    assert did(links)[did(links).index("pace") + 1] == "abort"
    assert links[0].params["begin"]["ident"] != links[0].params["prepare"]["ident"]


def test_a_job_that_goes_on_just_then_is_saved_at_a_boundary(cast: Cast, tmp_path: Path) -> None:
    paces = iter([STILL])
    links = cast(
        1,
        survey=lambda params, answer: {**answer, **next(paces, GOING)},
        take=ActionRefused("the job went on while it was being looked at"),
    )
    result = save(links, str(tmp_path / "ck"))
    assert result.taken == "loop boundary"
    assert "it made no steps when asked, and then went on" in result.notes


def test_ranks_that_agreed_on_a_step_and_count_none_are_at_that_step(cast: Cast, tmp_path: Path) -> None:
    links = cast(2, outcome=lambda params, answer: {**answer, "value": {**answer["value"], "own_steps": [None]}})
    asked_earlier = [[*row[:2], None, 43] for row in SURVEY["marks"]]
    links[1].says["survey"] = {"marks": asked_earlier}  # and so another number than rank 0's
    result = save(links, str(tmp_path / "ck"))
    assert (result.taken, result.mixed, result.exact) == ("loop boundary", False, True)


def test_a_pause_is_no_hang_where_a_step_comes(cast: Cast, tmp_path: Path) -> None:
    paces = iter([{"since_last_step_s": 3.0, "usual_step_s": 0.02}] * 3)
    links = cast(1, survey=lambda params, answer: {**answer, **next(paces, GOING)})
    assert save(links, str(tmp_path / "ck")).taken == "loop boundary"


def test_an_agent_that_has_just_come_in_waits_for_a_first_step(cast: Cast, tmp_path: Path) -> None:
    answers = iter([{"since_last_step_s": None, "usual_step_s": None}] * 3)
    links = cast(1, survey=lambda params, answer: {**answer, **next(answers, GOING)})
    assert save(links, str(tmp_path / "ck")).taken == "loop boundary"
    assert did(links).count("survey") == 4


def test_where_no_step_comes_the_job_counts_as_hung_and_the_result_is_not_exact(cast: Cast, tmp_path: Path) -> None:
    unseen = {"since_last_step_s": None, "usual_step_s": None, "boundary": None, "marks": []}
    links = cast(1, survey=unseen, take={"where": "as found", "notes": [packed(said("came late"))]})
    result = save(links, str(tmp_path / "ck"), timeout=1.0)
    assert (result.taken, result.exact) == ("hung", False)
    assert [f.code for f in result.findings] == ["checkpoint_not_exact"]
    assert result.inexact == ("rank 0: came late",)
    assert isinstance(result.ranks[0].boundary, NotAvailable)


def test_what_a_rank_is_in_doubt_of_is_told(cast: Cast, tmp_path: Path) -> None:
    result = save(
        cast(2, survey=STILL, take={"notes": [packed(said("its batch norms are ahead"))]}), str(tmp_path / "ck")
    )
    assert list(result.inexact) == ["ranks 0, 1: its batch norms are ahead"]
    assert [f.code for f in result.findings] == ["checkpoint_not_exact"]


def test_the_ranks_that_answer_suffice_for_a_replicated_job(cast: Cast, tmp_path: Path) -> None:
    links = cast(3, survey=STILL)
    links[0].says["survey"] = TargetGone("process 4711 ended")
    result = save(links, str(tmp_path / "ck"))
    assert (result.missing_ranks, [r.rank for r in result.ranks], result.exact) == ((0,), [1, 2], False)
    assert "rank 0 had no part in it" in result.findings[0].evidence[0]
    assert did(links, 0) == ["survey"]
    assert links[1].params["take"]["weights"]


def test_a_rank_that_was_not_asked_is_missing_too(cast: Cast, tmp_path: Path) -> None:
    result = save(cast(1, world_size=4), str(tmp_path / "ck"))
    assert (result.world_size, result.missing_ranks, result.exact) == (4, (1, 2, 3), False)


# --- what is refused before anything is written ------------------------------------------------------------------------


def test_what_is_not_supported_is_said_first(cast: Cast, tmp_path: Path) -> None:
    links = cast(2, survey={"unsupported": "FSDP1 keeps flat parameters"})
    error = refused(links, tmp_path / "ck")
    assert isinstance(error, ActionRefused)
    assert error.cause == "ranks 0, 1: FSDP1 keeps flat parameters"
    assert set(did(links)) == {"survey"}


def test_ranks_with_different_parameters_are_not_one_model(cast: Cast, tmp_path: Path) -> None:
    links = cast(4)
    links[3].says["survey"] = {"fingerprint": "g"}
    error = refused(links, tmp_path / "ck")
    assert "ranks 0-2 and rank 3 do not have the same parameters" in error.cause
    assert set(did(links)) == {"survey"}


def test_a_sharded_job_needs_all_its_shards(cast: Cast, tmp_path: Path) -> None:
    links = cast(3, world_size=4, survey={**STILL, "kind": "sharded"})
    links[1].says["survey"] = TargetGone("process 4711 ended")
    error = refused(links, tmp_path / "ck")
    assert "the shards of ranks 1, 3 are missing: process 4711 ended" in error.cause
    assert set(did(links)) == {"survey"}


def test_nobody_answers(cast: Cast, tmp_path: Path) -> None:
    error = refused(cast(2, survey=DeadlineExceeded("process 1 did not answer in 1 s")), tmp_path / "ck")
    assert isinstance(error, DeadlineExceeded)
    assert "ranks 0, 1" in error.cause


def test_two_processes_that_are_the_same_rank_are_two_jobs(cast: Cast, tmp_path: Path) -> None:
    links = cast(2)
    links[1].rank = 0
    assert "both say that they are rank 0" in str(refused(links, tmp_path / "ck"))


def test_a_rank_in_the_middle_of_its_update_is_refused(cast: Cast, tmp_path: Path) -> None:
    links = cast(2, survey=STILL)
    links[1].says["survey"] = {**STILL, "updating": True}
    error = refused(links, tmp_path / "ck")
    assert "rank 1 stands in the middle of optimizer.step()" in error.cause
    assert set(did(links)) == {"survey"}


@pytest.mark.parametrize(
    ("kind", "survey", "words"),
    [
        ("replicated", {"own_steps": [11]}, "rank 0 at step 12; rank 1 at step 11"),
        ("sharded", {"own_steps": [11]}, "rank 0 at step 12; rank 1 at step 11"),
        ("replicated", {"own_steps": [None]}, "rank 0 at step 12; rank 1 at step none"),
    ],
)
def test_ranks_at_different_steps(cast: Cast, tmp_path: Path, kind: str, survey: dict[str, Any], words: str) -> None:
    def play() -> list[Played]:
        links = cast(2, survey={**STILL, "kind": kind})
        links[1].says = {"survey": {**STILL, "kind": kind, **survey}, "take": survey}
        return links

    links = play()
    error = refused(links, tmp_path / "ck")
    assert words in error.cause
    assert "--allow-mixed" in error.next_step
    assert ("by its pid" in error.next_step) == (kind == "replicated")
    assert set(did(links)) == {"survey"}
    result = save(play(), str(tmp_path / "ck"), allow_mixed=True)
    assert (result.mixed, result.exact) == (True, False)
    assert [f.code for f in result.findings] == ["checkpoint_mixed_steps"]
    from jupyter_traindbg.checkpoints import manifest

    written = manifest.read(tmp_path / "ck")
    assert (written.mixed, written.exact, written.sealed) == (True, False, True)
    assert any(words in note for note in written.notes)


def without_counts(sequence: int | None) -> dict[str, Any]:
    marks = [[5, 0, None, sequence]] if sequence is not None else []
    return {**STILL, "own_steps": [None], "marks": marks}


@pytest.mark.parametrize(("numbers", "same"), [((50, 50), True), ((50, 44), False)])
def test_where_optimizers_do_not_count_the_collectives_do(
    cast: Cast, tmp_path: Path, numbers: tuple[int, int], same: bool
) -> None:
    links = cast(2, take={"own_steps": [None]})
    for link, number in zip(links, numbers, strict=True):
        link.says["survey"] = without_counts(number)
    if same:
        assert not save(links, str(tmp_path / "ck")).mixed
    else:
        assert "rank 0 at collective 50; rank 1 at collective 44" in str(refused(links, tmp_path / "ck"))


def test_steps_that_cannot_be_known_forbid_only_what_needs_them(cast: Cast, tmp_path: Path) -> None:
    unknown = {"survey": without_counts(None), "take": {"own_steps": [None]}}
    result = save(cast(2, **unknown), str(tmp_path / "one"))
    assert (result.mixed, result.exact) == (False, False)
    unknown["survey"] = {**unknown["survey"], "kind": "sharded"}
    assert "is not known" in str(refused(cast(2, **unknown), tmp_path / "two"))
    assert save(cast(2, **unknown), str(tmp_path / "three"), allow_mixed=True).mixed


def test_a_step_that_comes_between_asking_and_taking_is_seen(cast: Cast, tmp_path: Path) -> None:
    links = cast(2, survey=STILL)
    links[1].says["take"] = {"own_steps": [13]}
    assert "rank 0 at step 12; rank 1 at step 13" in str(refused(links, tmp_path / "ck"))


def test_steps_longer_than_the_timeout_are_no_hang(cast: Cast, tmp_path: Path) -> None:
    slow = {"since_last_step_s": 20.0, "usual_step_s": 30.0}
    links = cast(1, survey=slow, pace=slow, outcome=NOT_YET)
    error = refused(links, tmp_path / "ck", timeout=0.2)
    assert isinstance(error, DeadlineExceeded)
    assert "takes about 30 s" in error.cause
    assert "--timeout" in error.next_step


# --- what fails on the way -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("do", ["take", "write", "progress", "commit", "plan"])
@pytest.mark.parametrize(
    "error",
    [ProbeFailed("process 1: write: OSError: boom"), TargetGone("process 1 ended"), ActionRefused("no space")],
    ids=["failed", "gone", "refused"],
)
def test_whatever_fails_is_undone_everywhere(cast: Cast, tmp_path: Path, do: str, error: TraindbgError) -> None:
    links = cast(2, survey={**STILL, "kind": "sharded"})
    guilty = 0 if do == "commit" else 1
    links[guilty].says[do] = error
    caught = refused(links, tmp_path / "ck")
    assert type(caught) is type(error)
    assert f"rank {guilty}: {error.cause}" in caught.cause


def test_a_rank_that_does_not_find_the_decision_ends_it(cast: Cast, tmp_path: Path) -> None:
    links = cast(2)
    links[1].says["outcome"] = {**NOT_YET, "aborted": True}
    assert "rank 1 did not find what was decided" in str(refused(links, tmp_path / "ck"))


def test_an_error_of_the_writer_is_told_with_its_rank(cast: Cast, tmp_path: Path) -> None:
    links = cast(2, survey=STILL)
    links[1].says["progress"] = {"error": "no space left on device", "done": True}
    error = refused(links, tmp_path / "ck")
    assert error.cause == "rank 1 could not write: no space left on device"
    assert "what was there before is as it was" in error.next_step


def test_an_interrupt_is_undone_too(cast: Cast, tmp_path: Path) -> None:
    links = cast(2, survey=STILL)

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        save(links, str(tmp_path / "ck"), progress=stop)
    assert list(tmp_path.iterdir()) == []
    assert [did(links, rank)[-1] for rank in (0, 1)] == ["abort", "abort"]


def test_what_a_dead_writer_left_is_removed_from_here(cast: Cast, tmp_path: Path) -> None:
    links = cast(2, survey=STILL, progress={"error": "boom", "done": True}, abort=TargetGone("process 1 ended"))
    refused(links, tmp_path / "ck")


def test_writing_without_a_byte_is_an_error_in_time(
    cast: Cast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "STALL_S", 0.2)
    links = cast(2, survey=STILL)
    links[1].says["progress"] = {"written": 1, "done": False}
    error = refused(links, tmp_path / "ck")
    assert isinstance(error, DeadlineExceeded)
    assert "rank 1 wrote nothing for" in error.cause
    assert "(4 of 6 bytes)" in error.cause


def test_a_slow_answer_is_not_a_dead_writer_and_the_finished_are_kept_alive(cast: Cast, tmp_path: Path) -> None:
    links = cast(2, survey=STILL)
    answers = iter([DeadlineExceeded("slow"), {"written": 1, "done": False}, {}])

    def progress(params: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
        now = next(answers)
        if isinstance(now, DeadlineExceeded):
            raise now
        return {**answer, **now}

    links[1].says["progress"] = progress
    assert isinstance(save(links, str(tmp_path / "ck")), Checkpoint)
    assert did(links, 0).count("progress") == did(links, 1).count("progress") == 3


def test_a_commit_whose_answer_was_lost_is_found_to_be_done(cast: Cast, tmp_path: Path) -> None:
    def lost(params: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
        raise DeadlineExceeded("process 1 did not answer")

    links = cast(1, commit=lost)
    assert save(links, str(tmp_path / "ck")).exact
    assert (tmp_path / "ck" / "manifest.json").exists()


def test_what_is_not_on_disk_as_it_was_written_is_no_success(cast: Cast, tmp_path: Path) -> None:
    def cut(params: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
        (tmp_path / "ck" / "rank-0.pt").write_bytes(b"a")
        return answer

    with pytest.raises(BadCheckpoint, match=r"rank-0\.pt"):
        save(cast(1, commit=cut), str(tmp_path / "ck"))


# --- where to --------------------------------------------------------------------------------------------------------


def test_a_relative_directory_is_ours_and_a_tilde_is_home(
    cast: Cast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert save(cast(1), "one").directory == str(tmp_path / "one")
    assert save(cast(1), "~/two/").directory == str(tmp_path / "two")


def test_ranks_that_see_different_directories_are_refused(
    cast: Cast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jupyter_traindbg.actions.checkpoint import place as places

    links = cast(3)
    for link in links:
        link.pid = 100 + link.rank
    identities = {"": (1, 1), "/proc/100/root": (1, 1), "/proc/101/root": (2, 1), "/proc/102/root": None}
    monkeypatch.setattr(places, "_identity", lambda root, path: identities[root])
    error = refused(links, tmp_path / "ck")
    assert "for rank 0 and for ranks 1, 2" in error.cause
    assert set(did(links)) == {"survey"}


def test_a_job_in_a_container_is_given_an_absolute_path_of_its_own(tmp_path: Path) -> None:
    """Another root, as a container has: the path is the job's, and from here it is reached through /proc."""
    from jupyter_traindbg.actions.checkpoint import place as places

    with contextlib.ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(places, "_identity", lambda root, path: (2, 1) if root else (1, 1))
        links = {rank: Link(100 + rank, lambda deadline_s: pytest.fail("it was entered")) for rank in (0, 1)}
        place = places.find("/data/ck", links)
        assert (place.directory, place.here) == ("/data/ck", "/proc/100/root/data/ck")
        assert "container" in place.note
        with pytest.raises(ActionRefused, match="absolute path, as the job sees it"):
            places.find("ck", links)
