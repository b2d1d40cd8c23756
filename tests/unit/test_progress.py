"""Bars: drawn where somebody looks and it takes a while, and nothing where not."""

from __future__ import annotations

import pytest
from cases import each

from jupyter_traindbg import progress
from jupyter_traindbg.progress import BytesBar, CountBar, SecondsBar


class Terminal:
    """A stderr that may be a terminal."""

    def __init__(self, tty: bool) -> None:
        self.tty, self.said = tty, ""

    def isatty(self) -> bool:
        return self.tty

    def write(self, words: str) -> int:
        self.said += words
        return len(words)

    def flush(self) -> None:
        """Nothing to do."""


@pytest.mark.parametrize(("tty", "total", "drawn"), [(True, 10**9, True), (True, 10**6, False), (False, 10**9, False)])
def test_a_bar_is_drawn_where_somebody_looks_and_it_takes_a_while(
    tty: bool, total: int, drawn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal(tty)
    monkeypatch.setattr("sys.stderr", terminal)
    with BytesBar("saving") as bar:
        bar(0, total)
        bar(total // 2, total)
        bar(total, total)
    assert ("saving" in terminal.said) == drawn


@each(("after_s", "drawn"), [(0.0, True), (60.0, False)])
def test_counting_draws_a_bar_where_it_takes_a_while(after_s: float, drawn: bool) -> None:
    terminal = Terminal(True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stderr", terminal)
        patch.setattr(progress, "SHOW_AFTER_S", after_s)
        with CountBar("skipping", 3, "batch") as bar:
            for n in range(3):
                bar(n + 1)
    assert ("skipping" in terminal.said) == drawn


def test_seconds_are_drawn_up_to_the_last_and_not_beyond() -> None:
    terminal = Terminal(True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stderr", terminal)
        patch.setattr(progress, "SHOW_AFTER_S", 0.0)
        patch.setattr("tqdm.tqdm.monitor_interval", 0)
        with SecondsBar("watching", 2.5) as bar:
            for passed in (0.1, 1.7, 9.9):
                bar(passed)
                bar._bar.refresh()
    assert "watching:" in terminal.said
    assert [f"{n} / 3 s" in terminal.said for n in range(5)] == [True, True, False, True, False]


def test_without_tqdm_or_without_stderr_nothing_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(True)
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setitem(__import__("sys").modules, "tqdm", None)
    with BytesBar("saving", at_least=1) as bar:
        bar(1, 2)
    assert terminal.said == ""
    monkeypatch.setattr("sys.stderr", None)
    with BytesBar("saving", at_least=1) as bar:
        bar(1, 2)
