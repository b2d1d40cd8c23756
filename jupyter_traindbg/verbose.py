"""What the debugger does on its way, by the standard `logging`: quiet, unless somebody asks for it by `-v`.

Every module that opens or asks something tells it to the logger of its own name, at level DEBUG: what was tried, what came of it, how long
it took. So a program may have it, too, by a handler on the logger ``jupyter_traindbg``. What is told are pids, paths, durations and causes:
no environment, no job's command line, no key of a kernel or of an agent. What `telling` hands on has been redacted besides.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator

__all__ = ["at_stderr", "milliseconds", "telling"]

_ROOT = logging.getLogger(__name__.partition(".")[0])
_lock = threading.Lock()
_level_before = logging.NOTSET


@contextlib.contextmanager
def telling(tell: Callable[[str], None]) -> Iterator[None]:
    """While this is open, `tell` gets a line for everything that is done, with the seconds since its opening:
    ``0.061 s  attach.inject: process 4711: ...``. It is called on whichever thread does it.
    """
    global _level_before
    teller = _Teller(tell)
    with _lock:
        if not _open():
            _level_before = _ROOT.level
            _ROOT.setLevel(logging.DEBUG)
        _ROOT.addHandler(teller)
    try:
        yield
    finally:
        with _lock:
            _ROOT.removeHandler(teller)
            if not _open():
                _ROOT.setLevel(_level_before)


def at_stderr(*, wanted: bool) -> contextlib.AbstractContextManager[None]:
    """`telling` a terminal, or the output of a notebook's cell; nothing where it is not `wanted`."""
    return telling(_write) if wanted else contextlib.nullcontext()


def milliseconds(since: float) -> str:
    """``12.3 ms``: since a moment of the monotonic clock."""
    return f"{1000 * (time.monotonic() - since):.1f} ms"


def _write(line: str) -> None:
    if sys.stderr is not None:
        print(line, file=sys.stderr, flush=True)


def _open() -> bool:
    return any(isinstance(handler, _Teller) for handler in _ROOT.handlers)


class _Teller(logging.Handler):
    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__()
        self._tell, self._began = tell, time.monotonic()

    def format(self, record: logging.LogRecord) -> str:
        from .redact import redact
        from .terminal_codes import plain

        after_s = time.monotonic() - self._began
        room = record.name.removeprefix(f"{_ROOT.name}.")
        return plain(redact(f"{after_s:7.3f} s  {room}: {super().format(record)}"))

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._tell(self.format(record))
        except Exception:  # noqa: BLE001
            self.handleError(record)  # as every handler has it: what tells must not end what is told of
