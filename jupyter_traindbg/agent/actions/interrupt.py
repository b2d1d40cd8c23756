"""Interrupt what a Ray worker runs, and leave the worker, its actor and the actor's state as they are."""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Dict, List, Optional

from .. import executing, throwing
from ..awaiting import field
from ..executing import Call
from ..refused import Refused
from ..saying import Said, said

if TYPE_CHECKING:
    from ..core import Agent

CHANGES = "a running method, task or training function of a Ray worker ends with an exception; its caller gets ray's TaskCancelledError"
PATIENCE_S = 0.3
POLL_S = 0.01


def run(agent: Agent, *, do: str = "look", method: str = "", wait_s: float = 5.0) -> Dict[str, Any]:
    """``look`` answers ``{"worker": bool, "running": [...]}``: what could be interrupted, each with ``method``, ``thread``, ``tid``,
    ``where``, ``task_id`` (of a coroutine) and ``in_init``. ``interrupt`` interrupts all of these, or those whose method's name ends
    with `method`, and answers the same with ``ended`` (bool), ``after`` (where it stands now, None where it ended), ``how`` and
    ``note`` in each.

    In threads it is a KeyboardInterrupt, which ordinary ``except Exception`` lets through, in coroutines asyncio's CancelledError; ray
    turns both into a TaskCancelledError for the caller. What waits in C on the main thread (a lock, sleep, ``ray.get``, a socket) is
    woken; on another thread it cannot be, and the exception comes when that call returns: ``ended`` is False then, and ``note`` says
    so. Takes up to `wait_s`. Raises `Refused` for a process that is no Ray worker, where nothing runs, and for ``__init__``: an actor
    does not survive that.
    """
    found = [call for call in executing.calls() if not method or _last(call.method) == _last(method)]
    if do == "look":
        return {"worker": executing.is_worker(), "running": [executing.told(call) for call in found]}
    if do != "interrupt":
        raise Refused(said("there is no {deed}; there are {deeds}", deed=repr(do), deeds="look, interrupt"))
    if not executing.is_worker():
        raise Refused(
            said("this process is no worker of Ray's: it has no method to interrupt"), said("stop the job instead")
        )
    if not found:
        idle = (
            said("nothing runs there that is called {method}", method=method) if method else said("nothing runs there")
        )
        raise Refused(idle, said("it is idle: call it again"))
    if any(call.in_init for call in found):
        raise Refused(
            said("it is in __init__, and an actor does not survive an interrupted one"), said("kill the actor instead")
        )
    ends, done = time.monotonic() + wait_s, []
    for left in range(len(found), 0, -1):
        share_s = max(0.0, ends - time.monotonic()) / left  # one that does not end must not take the others' time
        done.append(_interrupt(found[-left], time.monotonic() + share_s))
    return {"worker": True, "running": done}


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _interrupt(call: Call, ends: float) -> Dict[str, Any]:
    before = executing.told(call)
    _tell(before)
    if call.task is not None:
        how = _cancel(call, ends)
    elif call.ident == threading.main_thread().ident:
        how = _on_main_thread(call, ends)
    else:
        how = _in_thread(call, KeyboardInterrupt, ends)
    ended = not call.runs()
    after = None if ended else call.where()
    return {**before, "ended": ended, "after": after, "how": how, "note": "" if ended else _why_not(call)}


def _tell(before: Dict[str, Any]) -> None:
    """One line in the worker's log, which its driver prints: whoever reads the error finds out where it comes from."""
    try:
        os.write(2, f"traindbg interrupts {before['method']} at {before['where']}, as it was asked to\n".encode())
    except OSError:
        pass  # nobody reads that log


def _on_main_thread(call: Call, ends: float) -> Said:
    thrown = throwing.OnMainThread(lambda frame: _is_above(call, frame))
    if thrown.queue() and (_over(call, min(ends, time.monotonic() + PATIENCE_S)) or thrown.raised):
        _over(call, ends)
        return said("KeyboardInterrupt was raised on its main thread")
    thrown.disarm()
    throwing.just_got_the_gil()
    if not call.on_stack():
        return said("it ended by itself")
    if throwing.signals_are_heard():
        throwing.trip_sigint()
        _over(call, ends)
        return said("KeyboardInterrupt was raised on its main thread, as by SIGINT")
    return _in_thread(call, KeyboardInterrupt, ends)


def _is_above(call: Call, frame: Any) -> bool:
    while frame is not None:
        if frame is call.frame:
            return True
        frame = frame.f_back
    return False


def _in_thread(call: Call, exception: Any, ends: float) -> Said:
    throwing.just_got_the_gil()
    if not call.on_stack():
        return said("it ended by itself")
    throwing.put_into(call.ident or 0, exception)
    _over(call, ends)
    return said("{exception} was raised in its thread", exception=exception.__name__)


def _cancel(call: Call, ends: float) -> Said:
    """Cancel the asyncio task; where it does not let the loop go on, throw into it."""
    asyncio = sys.modules["asyncio"]
    loop = field(call.task, "_loop")
    loop.call_soon_threadsafe(asyncio.Task.cancel, call.task)
    if _over(call, min(ends, time.monotonic() + PATIENCE_S)):
        return said("its coroutine was cancelled")
    busy = [one for one in executing.calls() if one.task is call.task and one.ident is not None]
    if busy and busy[0].on_stack():
        return _in_thread(busy[0], asyncio.CancelledError, ends)
    _over(call, ends)
    return said("its coroutine was cancelled")


def _over(call: Call, ends: float) -> bool:
    while call.runs():
        if time.monotonic() > ends:
            return False
        time.sleep(POLL_S)
    return True


def _why_not(call: Call) -> Said:
    if call.task is not None and not call.on_stack():
        return said("it was cancelled, but goes on: its code catches that")
    where: Optional[str] = call.where()
    if call.ident != threading.main_thread().ident:
        return said(
            "it stands in C code at {where}, on a thread that Python cannot wake: it will end when that call returns; "
            "end what it waits for, or kill the actor",
            where=where,
        )
    if not throwing.signals_are_heard():
        return said(
            "it stands in C code at {where}, and SIGINT is ignored in this cluster (it was started in the background of a script): "
            "it will end when that call returns; end what it waits for, or kill the actor",
            where=where,
        )
    return said(
        "it goes on at {where}: native code that asks for no signals, or code that catches KeyboardInterrupt",
        where=where,
    )


__all__: List[str] = ["CHANGES", "run"]
