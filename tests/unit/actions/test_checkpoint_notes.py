"""Why a checkpoint is not exact: in its manifest in English, and in the language of whoever looks at it."""

from __future__ import annotations

import json
from pathlib import Path

from played_ranks import STILL, Cast

from jupyter_traindbg.actions.checkpoint import save
from jupyter_traindbg.agent.saying import packed, said
from jupyter_traindbg.checkpoints import manifest
from jupyter_traindbg.language import speaking


def test_a_checkpoint_keeps_its_notes_in_english_and_shows_them_in_any_language(tmp_path: Path, cast: Cast) -> None:
    notes = [
        packed(
            said("the running statistics of {count} normalisation layers are those of the iteration under way", count=2)
        )
    ]
    with speaking("zh"):
        made = save(cast(2, survey=STILL, take={"notes": notes}), str(tmp_path / "ck"))
        read = manifest.read(tmp_path / "ck")
    assert made.inexact == read.notes == ("rank 0, 1：2 个归一化层的运行统计量属于正在进行的迭代",)
    on_disk = json.loads((tmp_path / "ck" / "manifest.json").read_text())
    assert on_disk["notes"] == [
        "ranks 0, 1: the running statistics of 2 normalisation layers are those of the iteration under way"
    ]
    assert manifest.read(tmp_path / "ck").notes == tuple(on_disk["notes"])


def test_what_is_not_finite_is_in_english_on_the_disk(tmp_path: Path, cast: Cast) -> None:
    part = {"part": "model", "tensors": 1, "of": 4, "first": "0.weight"}
    with speaking("zh"):
        made = save(cast(2, progress={"not_finite": [part]}), str(tmp_path / "ck"))
    assert json.loads((tmp_path / "ck" / "manifest.json").read_text())["not_finite"] == [
        "model: 1 of 4 tensors, first 0.weight"
    ]
    assert made.verdict[0].evidence == ["model：4 个张量中的 1 个，首个为 0.weight"]


def test_a_checkpoint_of_before_has_its_notes_as_they_are() -> None:
    assert manifest._notes({"notes": ["came late"]}) == ("came late",)
    assert manifest._notes({"notes": ["came late"], "said": [packed(said("no step came"))]}) == ("came late",)
