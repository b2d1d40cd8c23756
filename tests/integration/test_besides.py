"""What a training keeps besides model and optimizer is in the checkpoint, and a run that goes on from it is the uninterrupted one."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from checkpointing import command, good
from resuming import Losses, by_itself, losses
from support import Start, need, torchrun

import traindbg
from jupyter_traindbg.model import Checkpoint

FURTHER = 8
BESIDES = ("averages (Averages)", "curriculum (Curriculum)", "teacher (AveragedModel)")


def run(*args: str, ranks: int = 1, port: str = "") -> tuple[Losses, str]:
    """The losses of besides.py run to its end by itself, and all that it said."""
    text = "".join(by_itself("besides.py", *args, ranks=ranks, port=port))
    return losses(text), text


def saved(start: Start, directory: Path, *args: str, ranks: int = 1, port: str = "") -> Checkpoint:
    """A checkpoint of a running besides.py."""
    program = start("besides.py", *args, **({"command": torchrun(ranks, port)} if ranks > 1 else {}))
    with traindbg.attach(f"torchrun:{program.pid}" if ranks > 1 else program.pid) as job:
        result = job.checkpoint(str(directory))
    program.stop()
    return result


def goes_on(
    directory: Path, step: int, *args: str, ranks: int = 1, port: str = "", before: Sequence[str] = ()
) -> tuple[bool, str]:
    """Whether a run that is resumed there has the losses of one that was never interrupted, and what it said."""
    end = ("--steps", str(step + FURTHER))
    expected, _ = run(*before, *end, ranks=ranks, port=port)
    got, text = run(*before, "--resume", str(directory), *args, *end, ranks=ranks, port=port)
    assert len(got) == FURTHER * ranks
    return got == {key: loss for key, loss in expected.items() if key[1] > step}, text


def test_all_of_it_goes_on_bit_for_bit(start: Start, tmp_path: Path) -> None:
    result = saved(start, tmp_path / "ck")
    assert (result.exact, result.inexact, result.findings) == (True, (), ())
    assert tuple(result.contents[3:6]) == BESIDES
    assert result.others == ("averages", "curriculum", "teacher")
    step = good(tmp_path / "ck").step
    assert step is not None
    same, text = goes_on(tmp_path / "ck", step)
    assert "notes []" in text
    assert same


@pytest.mark.parametrize("name", ["averages", "teacher", "curriculum"])
def test_what_is_not_handed_over_is_named(start: Start, tmp_path: Path, name: str) -> None:
    result = saved(start, tmp_path / "ck")
    step = result.ranks[0].numbers[0].own
    assert step is not None
    same, text = goes_on(tmp_path / "ck", step, "--without", name)
    assert f"{name} (" in text
    assert "was saved and not given" in text
    assert not same  # it counts


def test_ranks_of_ddp(start: Start, tmp_path: Path, free_port: str) -> None:
    result = saved(start, tmp_path / "ck", ranks=2, port=free_port)
    assert (result.exact, result.inexact) == (True, ())
    assert tuple(result.contents[3:6]) == BESIDES
    step = good(tmp_path / "ck").step
    assert step is not None
    same, text = goes_on(tmp_path / "ck", step, ranks=2, port=free_port)
    assert text.count("notes []") == 2
    assert same


def test_ranks_that_do_not_keep_the_same(start: Start, tmp_path: Path, free_port: str) -> None:
    result = saved(start, tmp_path / "ck", "--apart", ranks=2, port=free_port)
    assert result.inexact == ("curriculum of rank 1 is not as that of rank 0, and only that one is in it",)


def test_a_sharded_teacher_is_saved_in_shards(start: Start, tmp_path: Path, free_port: str) -> None:
    result = saved(start, tmp_path / "ck", "--sharded", ranks=2, port=free_port)
    assert (result.kind, result.inexact) == ("sharded", ())
    step = good(tmp_path / "ck").step
    assert step is not None
    same, text = goes_on(tmp_path / "ck", step, ranks=2, port=free_port, before=["--sharded"])
    assert text.count("notes []") == 2
    assert same
    told = json.loads(command("--inspect", str(tmp_path / "ck"), "--json").stdout)
    parts = {(part["role"], part["note"]): part["tensors"] for part in told["parts"]}
    assert parts["other", "teacher (Sequential)"] == 4
    assert parts["model", ""] == 4


def test_what_only_its_own_code_could_tell_is_named_and_not_exact(start: Start, tmp_path: Path) -> None:
    result = saved(start, tmp_path / "ck", "--odd")
    (why,) = result.inexact
    assert why.startswith("rank 0: left out: the state of odd (Odd): only its own state_dict() could tell it")
    assert not good(tmp_path / "ck").exact
    assert [f.code for f in result.findings] == ["checkpoint_not_exact"]


def test_a_model_of_nans_is_saved_with_a_warning(start: Start, tmp_path: Path) -> None:
    program = start("besides.py", "--nan", "5")
    program.wait_for("nan", 30)
    told = command(str(program.pid), str(tmp_path / "ck"), "--json")
    result = json.loads(told.stdout)
    (finding,) = result["findings"]
    assert finding["code"] == "checkpoint_not_finite"
    assert finding["evidence"][0] == "model: 4 of 4 tensors, first 0.weight"
    assert result["exact"]  # it would go on as it goes on
    good(tmp_path / "ck")
    inspected = json.loads(command("--inspect", str(tmp_path / "ck"), "--json").stdout)
    assert [f["code"] for f in inspected["findings"]] == ["checkpoint_not_finite"]


def test_diffusers_own_average(start: Start, tmp_path: Path) -> None:
    need("diffusers", importlib.util.find_spec("diffusers") is not None)
    result = saved(start, tmp_path / "ck", "--diffusers")
    assert "averages (EMAModel)" in result.contents
    step = good(tmp_path / "ck").step
    assert step is not None
    same, text = goes_on(tmp_path / "ck", step, before=["--diffusers"])
    assert "notes []" in text
    assert same
