"""%plot: what is drawn of what, and what is refused before anybody is asked."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from cases import each
from render_scenes_pictures import picture_of_loss

from jupyter_traindbg.errors import BadLog, TraindbgError, UsageError
from jupyter_traindbg.magics import base
from jupyter_traindbg.magics import plot as verb
from jupyter_traindbg.model import Picture


class Asked:
    """A session whose job notes what it was asked to draw."""

    current = None
    named: str | None = None

    def __init__(self) -> None:
        self.plotted: list[str] = []
        self.targets: list[str | None] = []

    def job(self, target: str | None, timeout: float) -> AbstractContextManager[Any]:
        self.targets.append(target)
        self.named = target

        @contextmanager
        def entered() -> Iterator[Any]:
            yield self

        return entered()

    def plot(self, of: str, *, timeout: float) -> Picture:
        self.plotted.append(of)
        return picture_of_loss(1, 20)


def plot(words: str, session: Asked | None = None) -> Any:
    args = base.parser("plot").parse_args(base.split(words))
    return base.run("plot", args, session or Asked())  # type: ignore[arg-type]


@each(
    ("words", "of", "target"),
    [
        ("", "loss", None),
        ("lr", "lr", None),
        ("grads 4711", "grads", "4711"),
        ("kernel:train.ipynb", "loss", "kernel:train.ipynb"),
        ("self", "loss", "self"),
    ],
)
def test_of_a_job(words: str, of: str, target: str | None) -> None:
    session = Asked()
    picture = plot(words, session)
    assert (session.plotted, session.targets) == ([of], [target])
    assert picture.asked_about == target


def test_of_a_log(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("step 1 loss 2.0\nstep 2 loss 1.0\nRuntimeError: CUDA out of memory\n")
    session = Asked()
    assert plot(str(log), session).of == "log"
    assert session.targets == []


@each(
    ("words", "seconds"),
    [("loss", 10.0), ("4711", 10.0), ("train.log", 60.0), ("'*.log'", 60.0), ("train.log --timeout 3", 3.0)],
)
def test_a_log_may_take_longer_than_a_job(words: str, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def run(args: argparse.Namespace, session: Asked) -> None:
        asked.append(args.timeout)

    monkeypatch.setattr(verb, "run", run)
    plot(words)
    assert asked == [seconds]


@each(
    ("words", "kind", "said"),
    [
        ("los", UsageError, r"no picture of 'los'; did you mean `traindbg plot loss`\? there are loss, lr, grads,"),
        ("grad 4711", UsageError, r"no picture of 'grad'; did you mean `traindbg plot grads 4711`\?"),
        ("everything", UsageError, r"no picture of 'everything'; there are loss,"),
        ("4711 4712", UsageError, "of one job at a time, not of 4711 and 4712; name one of them"),
        ("lr train.log", UsageError, "of a log there is one picture, not lr; `traindbg plot train.log`"),
        ("nowhere.log", BadLog, "nowhere.log"),
        ("loss -o loss.doc", UsageError, "loss.doc has no ending that says what to write"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anybody_is_asked(
    words: str, kind: type[TraindbgError], said: str
) -> None:
    session = Asked()
    with pytest.raises(kind, match=said):
        plot(words, session)
    assert session.targets == []


def test_it_is_written_where_it_is_wanted(tmp_path: Path) -> None:
    picture = plot(f"loss -o {tmp_path / 'loss.svg'}")
    assert picture.path == str(tmp_path / "loss.svg")
    assert (tmp_path / "loss.svg").stat().st_size > 1000
