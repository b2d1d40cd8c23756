"""`checkpoint` as it is typed: which words mean what, and which contradict each other."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cases import each

from jupyter_traindbg import checkpoints
from jupyter_traindbg.errors import UsageError
from jupyter_traindbg.magics import base
from jupyter_traindbg.magics import checkpoint as verb


class Noted:
    """A session and its job, which note what they are asked for."""

    current = None

    def __init__(self) -> None:
        self.asked: list[Any] = []

    @contextlib.contextmanager
    def job(self, target: str | None, timeout: float) -> Iterator[Any]:
        self.asked.append(("job", target))
        yield self

    def checkpoint(self, directory: str, **options: Any) -> Any:
        self.asked.append(("checkpoint", directory, options))

    def compare(self, path: str, **options: Any) -> Any:
        self.asked.append(("compare", path))


def typed(words: str) -> list[Any]:
    session: Any = Noted()
    verb.run(base.parser("checkpoint").parse_args(shlex.split(words)), session)
    return list(session.asked)


@each(
    ("words", "target", "directory", "options"),
    [
        ("out", None, "out", {}),
        ("4711 out", "4711", "out", {}),
        ("torchrun:9 'a b/c' --overwrite", "torchrun:9", "a b/c", {"overwrite": True}),
        ("self ./4711 --allow-mixed --timeout 3", "self", "./4711", {"allow_mixed": True, "timeout": 3.0}),
    ],
)
def test_a_target_and_a_directory(words: str, target: str | None, directory: str, options: dict[str, Any]) -> None:
    wanted = {"overwrite": False, "allow_mixed": False, "timeout": 10.0, **options}
    assert typed(words) == [("job", target), ("checkpoint", directory, wanted)]


@each(
    ("words", "said"),
    [
        ("", "a directory to save to is missing"),
        ("4711", "'4711' is a target, and a directory is missing"),
        ("torchrun:9", "is a target"),
        ("out 4711", "the target comes first"),
        ("1 2 3", "too many words"),
        ("--verify ck --overwrite", "--overwrite says nothing"),
        ("out --verify ck", "out says nothing"),
        ("--inspect ck --allow-mixed", "--allow-mixed says nothing"),
        ("--compare a b c", "--compare takes"),
    ],
)
def test_what_contradicts_itself(words: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        typed(words)


def test_one_look_at_a_time() -> None:
    with pytest.raises(UsageError, match="--inspect: not allowed with argument --verify"):
        typed("--verify a --inspect b")


def test_comparing_with_a_file_or_with_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(checkpoints, "compare", lambda *sides: seen.append(sides))
    other = tmp_path / "other.pt"
    other.write_bytes(b"")
    assert typed(f"--compare ck.pt {other}") == []
    assert seen == [("ck.pt", str(other))]
    (tmp_path / "4711").mkdir()
    monkeypatch.chdir(tmp_path)
    assert typed("--compare ck.pt 4711") == [("job", "4711"), ("compare", "ck.pt")]
    assert typed("--compare ck.pt") == [("job", None), ("compare", "ck.pt")]
    assert len(seen) == 1


@pytest.mark.parametrize("option", ["verify", "inspect"])
def test_looking_needs_no_job(option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr(checkpoints, option, seen.append)
    assert typed(f"--{option} some/where") == []
    assert seen == ["some/where"]
