"""What Tab offers behind a magic, without a kernel: tests/smoke has one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from cases import each

from jupyter_traindbg.attach import discover
from jupyter_traindbg.magics import base, completion
from jupyter_traindbg.model import NotAvailable, Target


def _target(name: str, kind: str, **fields: object) -> Target:
    pid = int(name.rpartition(":")[2]) if name[-1].isdigit() else 1
    return Target(name, pid, kind, "python train.py", "me", 3.0, NotAvailable("none"), **fields)  # type: ignore[arg-type]


SEEN = [
    _target("torchrun:4700", "launcher"),
    _target("4711", "rank", part_of="torchrun:4700"),
    _target("4712", "rank", part_of="torchrun:4700"),
    _target("4800", "process"),
    _target("ray:auto", "ray"),
    _target("4900", "process", why_not="another user's"),
]


@pytest.fixture(autouse=True)
def _processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discover, "targets", lambda: list(SEEN))


def offered(line: str) -> list[str]:
    verb, _, typed = line.partition(" ")
    fragment, found = completion.offered(base.parser(verb.removeprefix("%")), typed)
    assert typed.endswith(fragment)
    return [text for text, _ in found]


@each(
    ("line", "expected"),
    [
        ("%attach ", ["torchrun:4700", "4800", "ray:auto", "self"]),
        ("%attach 47", ["4711", "4712"]),
        ("%attach t", ["torchrun:4700"]),
        ("%attach 4800 ", ["--help", "--timeout", "--verbose"]),
        ("%attach --", ["--help", "--timeout", "--verbose"]),
        (
            "%lr --",
            [
                "--help",
                "--scale",
                "--hold",
                "--release",
                "--undo",
                "--group",
                "--optimizer",
                "--force",
                "--timeout",
                "--verbose",
            ],
        ),
        ("%lr 4711 --hold --r", ["--release"]),
        ("%lr --group 1 --g", ["--group"]),
        ("%lr --hold --h", ["--help"]),
        ("%lr --scale ", []),
        ("%lr --scale 0.1 ", ["torchrun:4700", "4800", "ray:auto", "self"]),
        ("%targets ", ["--help", "--timeout", "--verbose"]),
        ("%ray_workers ", ["auto", "ray:auto"]),
        ("%ray_workers --tier ", ["0", "1", "2"]),
        ("%watch --view ", ["curves", "gradients", "learning_rate", "checkpoint", "diagnosis", "ranks", "events"]),
        ("%watch --view g", ["gradients"]),
        ("%attach nonsense", []),
    ],
)
def test_what_may_stand_there_and_nothing_else(line: str, expected: list[str]) -> None:
    assert offered(line) == expected


def test_files_where_files_are_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("train.log", "my run.log", ".hidden"):
        (tmp_path / name).touch()
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "a.zip").touch()
    assert offered("%checkpoint --verify ") == ["my\\ run.log", "runs/", "train.log"]
    assert offered("%checkpoint --verify my\\ r") == ["my\\ run.log"]
    assert offered("%diagnose ") == ["torchrun:4700", "4800", "ray:auto", "self", "my\\ run.log", "runs/", "train.log"]
    assert offered("%diagnose a.log tr") == ["train.log"]
    assert offered("%report -o runs/") == ["runs/a.zip"]
    assert offered("%report -o .h") == [".hidden"]
    assert offered("%report -o none/") == []
    assert base.split("my\\ run.log") == ["my run.log"]


def test_hosts_of_ssh_and_jobs_of_slurm_where_targets_and_hosts_are_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "config").write_text("Host node1 node2 other\n")
    squeue = tmp_path / "squeue"
    squeue.write_text(
        "#!/bin/sh\necho '42|42|RUNNING|None|a|x'\necho '43|43|PENDING|None||y'\necho '7_1|9|RUNNING|None|b|z'\n"
    )
    squeue.chmod(0o755)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TRAINDBG_SLURM", f"env PATH={tmp_path}:{os.environ['PATH']}")
    for verb in ("%attach", "%targets"):
        assert offered(f"{verb} ssh:node1,no") == ["ssh:node1,node1", "ssh:node1,node2"]
        assert offered(f"{verb} slurm:") == ["slurm:42", "slurm:7_1"]
        assert offered(f"{verb} slurm:7") == ["slurm:7_1"]
    monkeypatch.setenv("TRAINDBG_SLURM", str(tmp_path / "nowhere"))
    assert offered("%attach slurm:") == [], "where there is no Slurm"
