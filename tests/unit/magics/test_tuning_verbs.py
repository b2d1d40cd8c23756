"""How `lr`, `weight_decay`, `clip` and `free_memory` understand what is typed; the job is not there."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from cases import each

from jupyter_traindbg import cli
from jupyter_traindbg.magics import base


class Recorded:
    """A session, and a job which writes down what it is asked."""

    current = None

    def __init__(self) -> None:
        self.target: str | None = "not asked"
        self.asked: tuple[str, tuple[Any, ...], dict[str, Any]] = ("", (), {})

    @contextlib.contextmanager
    def job(self, target: str | None, timeout: float) -> Iterator[Any]:
        self.target = target
        yield self

    def __getattr__(self, name: str) -> Any:
        def method(*args: Any, **kwargs: Any) -> None:
            self.asked = (
                name,
                args,
                {k: v for k, v in kwargs.items() if v is not None and v is not False and k != "timeout"},
            )

        return method


def asked(words: str) -> tuple[str | None, str, tuple[Any, ...], dict[str, Any]]:
    name, *rest = words.split()
    parser = base.parser(name)
    session: Any = Recorded()
    base.load(name).run(parser.parse_args(rest), session)
    return session.target, *session.asked


@each(
    ("words", "target", "method", "args", "kwargs"),
    [
        ("lr", None, "lr", (), {"setting": "lr"}),
        ("lr 4711", "4711", "lr", (), {"setting": "lr"}),
        ("lr torchrun:900", "torchrun:900", "lr", (), {"setting": "lr"}),
        ("lr 1e-4", None, "set_lr", (1e-4,), {}),
        ("lr 2.0", None, "set_lr", (2.0,), {}),
        ("lr 4711 2", "4711", "set_lr", (2.0,), {}),
        ("lr 4711 1e-4 --group 0 --group 2 --force", "4711", "set_lr", (1e-4,), {"group": [0, 2], "force": True}),
        ("lr 4711 --timeout 5 1e-4", "4711", "set_lr", (1e-4,), {}),
        ("lr --force 4711 --group 0 1e-4", "4711", "set_lr", (1e-4,), {"group": [0], "force": True}),
        ("lr 4711 1e-4 --optimizer 1", "4711", "set_lr", (1e-4,), {"optimizer": [1]}),
        ("lr --scale 0.5", None, "set_lr", (None,), {"scale": 0.5}),
        ("lr 4711 --hold", "4711", "set_lr", (None,), {"hold": True}),
        ("lr 4711 1e-4 --hold", "4711", "set_lr", (1e-4,), {}),
        ("lr --release --group 1", None, "release", ("lr",), {"group": [1]}),
        ("lr 4711 --undo", "4711", "undo", ("lr",), {}),
        ("weight_decay 0.05", None, "set_weight_decay", (0.05,), {}),
        ("weight_decay 4711 --release", "4711", "release", ("weight_decay",), {}),
        ("clip 1.0", None, "clip", (1.0,), {}),
        ("clip 4711 1 --optimizer 0", "4711", "clip", (1.0,), {"optimizer": [0]}),
        ("clip --release", None, "release", ("clip_norm",), {}),
        ("clip --undo", None, "undo", ("clip_norm",), {}),
        ("clip 4711", "4711", "lr", (), {"setting": "clip_norm"}),
        ("weight_decay", None, "lr", (), {"setting": "weight_decay"}),
        ("free_memory 4711 --zero-grad", "4711", "free_memory", (), {"zero_grad": True}),
    ],
)  # fmt: skip
def test_words(words: str, target: str | None, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    assert asked(words) == (target, method, args, kwargs)


@each(
    ("words", "why"),
    [
        ("lr 4711 1e-4 --scale 2", "exclude each other"),
        ("lr 4711 1e-4 --release", "exclude each other"),
        ("lr --release --undo", "exclude each other"),
        ("lr --hold --scale 2", "exclude each other"),
        ("lr --undo --group 1", "exclude each other"),
        ("clip 1.0 --release", "exclude each other"),
        ("lr nan", "finite"),
        ("lr 4711 inf", "finite"),
        ("lr 4711 -0.1", "negative"),
        ("lr --scale nan", "finite"),
        ("lr 4711 fast", "'fast' is not a number"),
        ("lr 1e-4 --group -1", "group="),
        ("weight-decay -0.1", "negative"),
        ("clip 0.0", "norm 0"),
        ("lr banana", "'banana' is neither a number nor a target; give the learning rate as a number such as 1e-4, or"),
        ("weight-decay banana", "give the weight decay as a number such as 0.01, or a target: `traindbg targets`"),
        (
            "clip banana",
            "'banana' is neither a number nor a target; give the norm as a number such as 1.0, or a target",
        ),
        ("lr raysubmit_banana", "is neither a number nor a target; a job of Ray is ray:raysubmit_banana"),
        ("lr kernel:banana", "no kernel 'banana' runs here"),
        ("lr torchrun:banana", "does not end in the launcher's pid"),
    ],
)
def test_what_makes_no_sense_is_one_line_and_exit_status_2(
    words: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(words.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert why in err
