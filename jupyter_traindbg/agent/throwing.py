"""Throwing an exception into a thread, whatever it does: it runs Python, or waits in C code of the interpreter's or of Ray's.

Three ways, for three kinds of thread. A call that CPython makes on its main thread reaches Python code and waits for locks. A tripped
SIGINT reaches whatever asks for signals: sleep, select, ``ray.get`` (once a second); it is how Ray itself cancels a task. Into other
threads an exception can be put that is raised when they next run Python code: what waits in C there has to return by itself.
"""

from __future__ import annotations

import _thread
import ctypes
import signal
import sys
import threading
import time
from typing import Any, Callable, List, Type

QUIET_SIGNALS = (signal.SIGURG, signal.SIGWINCH)
"""Signals that do nothing by default: one is sent to a thread to make its system call return."""
NUDGE_S = 0.02
_DEFAULT = 0

_kept: List[Any] = []
"""What CPython may still call when we have left."""


class OnMainThread:
    """Has CPython's main thread raise KeyboardInterrupt where `still` says so, on that thread, at that moment.

    It is an object whose truth value CPython asks for, because C knows no other way to call Python from its list of pending calls.
    """

    def __init__(self, still: Callable[[Any], bool]) -> None:
        self._still, self._armed = still, True
        self.raised = False

    def queue(self) -> bool:
        """False where CPython's list is full."""
        _kept.append(self)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))
        function = ctypes.cast(ctypes.pythonapi.PyObject_IsTrue, ctypes.c_void_p)
        add = ctypes.pythonapi.Py_AddPendingCall
        add.argtypes, add.restype = [ctypes.c_void_p, ctypes.c_void_p], ctypes.c_int
        queued = bool(add(function, ctypes.c_void_p(id(self))) == 0)
        nudge(threading.main_thread().ident)
        return queued

    def disarm(self) -> None:
        self._armed = False

    def __bool__(self) -> bool:
        if self._armed and self._still(sys._getframe(1)):
            self._armed, self.raised = False, True
            raise KeyboardInterrupt
        return False


def signals_are_heard() -> bool:
    """Whether a SIGINT would become a KeyboardInterrupt: not in a cluster that was started in the background of a script."""
    return signal.getsignal(signal.SIGINT) is signal.default_int_handler


def trip_sigint() -> None:
    """As if a SIGINT had come, also where those are blocked, as they are in a worker. Only the main thread hears of it."""
    _thread.interrupt_main()
    nudge(threading.main_thread().ident)


def put_into(ident: int, exception: Type[BaseException]) -> None:
    """Have thread `ident` raise `exception` when it next runs Python code."""
    set_exception = ctypes.pythonapi.PyThreadState_SetAsyncExc
    set_exception.argtypes, set_exception.restype = [ctypes.c_ulong, ctypes.py_object], ctypes.c_int
    set_exception(ident, exception)


def nudge(ident: Any) -> None:
    """Make a system call of that thread return early, as any signal does, by one that nobody listens to."""
    getsig, setsig = ctypes.pythonapi.PyOS_getsig, ctypes.pythonapi.PyOS_setsig
    getsig.argtypes, getsig.restype = [ctypes.c_int], ctypes.c_void_p
    setsig.argtypes, setsig.restype = [ctypes.c_int, ctypes.c_void_p], ctypes.c_void_p
    harmless = ctypes.cast(
        ctypes.CDLL(None).abs, ctypes.c_void_p
    )  # takes an int and does nothing with it, as a handler may
    for number in QUIET_SIGNALS:
        if (getsig(number) or _DEFAULT) == _DEFAULT:
            setsig(number, harmless)
            try:
                signal.pthread_kill(ident, number)
                time.sleep(NUDGE_S)
            finally:
                setsig(number, ctypes.c_void_p(_DEFAULT))
            return


def just_got_the_gil() -> None:
    """After this, for five milliseconds at least, no other thread of this process runs Python code: a switch takes that long."""
    time.sleep(0.0005)


__all__ = ["OnMainThread", "just_got_the_gil", "nudge", "put_into", "signals_are_heard", "trip_sigint"]
