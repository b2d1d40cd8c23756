"""Many cases of one fact in one test: all of them are tried, and the failure names those that failed."""

from __future__ import annotations

import functools
import inspect
import itertools
import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

SHOWN = 20
LONGEST = 100
Test = Callable[..., None]


def each(
    names: str | Sequence[str], cases: Iterable[Any], ids: Iterable[str] | Callable[[Any], str] | None = None
) -> Callable[[Test], Test]:
    """Like ``pytest.mark.parametrize``, also one above another, but it stays one test.

    For pure code, whose cases take a moment and leave nothing behind: fixtures are shared by them all. `ids` are the
    names of the cases, or a function that names a value.
    """
    wanted = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    rows = [case if len(wanted) > 1 else (case,) for case in cases]
    labels = [_label(wanted, row, ids) for row in rows] if ids is None or callable(ids) else list(ids)
    assert rows, "no cases: nothing would be tried"
    assert len(labels) == len(rows)
    assert all(len(row) == len(wanted) for row in rows), wanted

    def of(test: Test) -> Test:
        inner = getattr(test, "__cases__", None)
        plain, others = inner or (test, [])
        every = [(wanted, labels, rows), *others]

        @functools.wraps(plain)
        def run(**fixtures: Any) -> None:
            __tracebackhide__ = True
            _try_all(plain, every, fixtures)

        given = {name for those, _, _ in every for name in those}
        kept = [p for p in inspect.signature(plain).parameters.values() if p.name not in given]
        run.__signature__ = inspect.Signature(kept)  # type: ignore[attr-defined]
        run.__cases__ = (plain, every)  # type: ignore[attr-defined]
        return run

    return of


def _try_all(test: Test, every: Sequence[tuple[list[str], list[str], list[Any]]], fixtures: dict[str, Any]) -> None:
    __tracebackhide__ = True
    failed: list[tuple[str, BaseException]] = []
    tried = 0
    for chosen in itertools.product(*(range(len(rows)) for _, _, rows in every)):
        values = dict(fixtures)
        for (names, _, rows), n in zip(every, chosen, strict=True):
            values |= zip(names, rows[n], strict=True)
        tried += 1
        try:
            test(**values)
        except (Exception, pytest.fail.Exception) as error:
            label = "; ".join(labels[n] for (_, labels, _), n in zip(every, chosen, strict=True))
            failed.append((f"{label}: {_told(test, error)}", error))
    if failed:
        lines = [f"{len(failed)} of {tried} cases failed:", *(f"- {words}" for words, _ in failed[:SHOWN])]
        if len(failed) > SHOWN:
            lines.append(f"... and {len(failed) - SHOWN} more")
        raise AssertionError("\n".join(lines)) from failed[0][1]


def _label(names: Sequence[str], row: Sequence[Any], named: Callable[[Any], str] | None) -> str:
    told = (named(value) if named else getattr(value, "__name__", None) or repr(value) for value in row)
    return ", ".join(f"{name}={_short(words)}" for name, words in zip(names, told, strict=True))


def _short(words: str) -> str:
    return words if len(words) <= LONGEST else f"{words[:LONGEST]}..."


def _told(test: Test, error: BaseException) -> str:
    """What went wrong, in a line, and where in the file of `test`."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = [frame for frame in frames if frame.filename == test.__code__.co_filename] or frames
    words = next(iter(str(error).splitlines()), "")
    return f"{type(error).__name__} at line {inside[-1].lineno}: {_short(words)}"
