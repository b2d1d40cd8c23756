"""A checkpoint's directory appears complete or not at all, and what cannot be done is refused in words before anything is made."""

from __future__ import annotations

import errno
import os
import subprocess
import time
from pathlib import Path

import pytest

from jupyter_traindbg.agent.checkpoint import files
from jupyter_traindbg.agent.refused import Refused

OURS = '{"format": "traindbg-checkpoint"}'


def made(parent: Path) -> list[str]:
    return sorted(p.name for p in parent.iterdir())


def checkpoint(path: Path, content: str = OURS) -> Path:
    path.mkdir()
    (path / files.MANIFEST).write_text(content)
    return path


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("ck", "absolute path"),
        ("/", "absolute path"),
        ("{tmp}/", "absolute path"),
        ("{tmp}/..", "absolute path"),
        ("{tmp}/a\0b", "absolute path"),
        ("{tmp}/nowhere/ck", "no such file or directory"),
        ("{tmp}/file/ck", "is no directory"),
        ("{tmp}/" + "n" * 250, "too long"),
        ("/proc/ck", "cannot write in /proc"),
        ("{tmp}/there", "exists already"),
    ],
)
def test_targets_that_cannot_be(tmp_path: Path, target: str, words: str) -> None:
    (tmp_path / "file").write_text("")
    checkpoint(tmp_path / "there")
    before = made(tmp_path)
    with pytest.raises(Refused, match=words) as refused:
        files.prepare(target.format(tmp=tmp_path), "1", 10, overwrite=False)
    assert refused.value.next_step
    assert made(tmp_path) == before


@pytest.mark.parametrize("kind", ["file", "link", "other directory", "another program's"])
def test_what_is_no_checkpoint_of_ours_is_never_replaced(tmp_path: Path, kind: str) -> None:
    target = tmp_path / "ck"
    if kind == "file":
        target.write_text("precious")
    elif kind == "link":
        target.symlink_to(checkpoint(tmp_path / "elsewhere"))
    elif kind == "other directory":
        (target / "precious").mkdir(parents=True)
    else:
        checkpoint(target, '{"precious": 1}')
    before = made(tmp_path)
    with pytest.raises(Refused, match="will not be replaced"):
        files.prepare(str(target), "1", 10, overwrite=True)
    assert made(tmp_path) == before


@pytest.mark.parametrize("renameat2", [True, False])
@pytest.mark.parametrize("old", [True, False])
def test_the_new_one_takes_its_place_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: bool, renameat2: bool
) -> None:
    if not renameat2:
        monkeypatch.setattr(files, "_renameat2", lambda *args: False)
    target = tmp_path / "ck"
    if old:
        checkpoint(target)
        (target / "old").write_text("")
    temporary = files.prepare(str(target), "1", 10, overwrite=old)
    files.written(os.path.join(temporary, "new"), lambda file: file.write(b"x"))
    files.finish(temporary, str(target), overwrite=old)
    assert made(tmp_path) == ["ck"]
    assert made(target) == ["new"]


@pytest.mark.parametrize("renameat2", [True, False])
def test_one_that_came_meanwhile_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renameat2: bool
) -> None:
    if not renameat2:
        monkeypatch.setattr(files, "_renameat2", lambda *args: False)
    temporary = files.prepare(str(tmp_path / "ck"), "1", 10, overwrite=False)
    checkpoint(tmp_path / "ck")
    with pytest.raises(FileExistsError):
        files.finish(temporary, str(tmp_path / "ck"), overwrite=False)
    assert made(tmp_path / "ck") == [files.MANIFEST]


def test_a_failed_exchange_puts_the_old_one_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_renameat2", lambda *args: False)
    target = checkpoint(tmp_path / "ck")
    temporary = files.prepare(str(target), "1", 10, overwrite=True)
    rename = os.rename

    def broken(old: str, new: str) -> None:
        if old == temporary:
            raise OSError(errno.EIO, "broken")
        rename(old, new)

    monkeypatch.setattr(os, "rename", broken)
    with pytest.raises(OSError, match="broken"):
        files.finish(temporary, str(target), overwrite=True)
    assert made(target) == [files.MANIFEST]


def test_space_is_checked_before(tmp_path: Path) -> None:
    with pytest.raises(
        Refused, match=rf"no space left on {files.mount_point(str(tmp_path))}: needed 1\d+\.\d\d TB, free "
    ):
        files.prepare(str(tmp_path / "ck"), "1", 10**14, overwrite=False)
    assert made(tmp_path) == []


def test_what_dead_writers_left_is_removed_after_an_hour(tmp_path: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait(10)

    def left(ident: str, pid: int, age_s: float, host: str = os.uname().nodename) -> None:
        path = tmp_path / f".ck.partial-{ident}"
        path.mkdir()
        (path / f".writer-{host}-{pid}").write_text("")
        os.utime(path, (time.time() - age_s,) * 2)

    left("old", gone.pid, 4000)
    left("young", gone.pid, 100)
    left("alive", os.getpid(), 4000)
    left("far", gone.pid, 4000, "another-host")
    (tmp_path / ".ckx.partial-old").mkdir()
    files.prepare(str(tmp_path / "ck"), "1", 10, overwrite=False)
    assert made(tmp_path) == [
        ".ck.partial-1",
        ".ck.partial-alive",
        ".ck.partial-far",
        ".ck.partial-young",
        ".ckx.partial-old",
    ]


def test_words_for_other_errors(tmp_path: Path) -> None:
    quota = files.space_words(str(tmp_path), OSError(errno.EDQUOT, "quota"), 10)
    assert str(quota).startswith("the disk quota is used up on")
    assert "input/output error" in files.space_words("/x/f", OSError(errno.EIO, "Input/output error"), 10)
