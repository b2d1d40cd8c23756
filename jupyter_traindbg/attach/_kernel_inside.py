"""What runs inside the other kernel. `kernel_channel` sends this file as text, so: standard library only, Python 3.9.

A silent execute is not as silent as its name. On ipykernel 6.31 and 7.4 it also

- fires ``post_execute`` in its own thread: with ``%matplotlib inline`` that closes the running cell's open figures;
- overwrites ``kernel._allow_stdin``, which decides whether the running cell may call ``input()``;
- takes away the payloads (pager text, ``%load``) that the running cell has queued for its own reply;
- overwrites ``shell.last_execution_result``.

`prepare` runs as the silent cell and `answer` as its user expression; between them they undo all of that. What comes
before any code of ours they cannot undo: ``pre_execute``, whose one callback by default makes IPython forget which
warnings the notebook has already shown (so a warning may be shown once more). ``builtins.input`` stays the kernel's
own after the cell, as during it.
"""

from __future__ import annotations

import json
import threading
import time
import traceback
from typing import Any

STATE = "_traindbg_state"


def prepare() -> None:
    """First half, as the silent cell. Raises nothing: on 6.x IPython would publish it in the running cell's output."""
    from IPython import get_ipython

    shell = get_ipython()
    before = (shell.last_execution_succeeded, shell.last_execution_result)
    trouble = None
    try:
        hush(shell.events, "trigger", None)
        give_back(shell.kernel)
    except Exception as error:  # noqa: BLE001 - told by `answer`
        trouble = last_line(error)
    # The thread carries the state from the cell to the expression, so that user_ns is not needed for it.
    vars(threading.current_thread())[STATE] = {"shell": shell, "before": before, "trouble": trouble, "answer": answer}


def answer(source: str | None, token: str, wait_s: float, keep_s: float) -> str:
    """Second half, as the user expression: start `source` (None: it runs already), wait `wait_s` for it; JSON."""
    state = vars(threading.current_thread()).pop(STATE)
    shell = state["shell"]
    shell.last_execution_succeeded, shell.last_execution_result = state["before"]
    hush(shell.payload_manager, "read_payload", [])
    hush(shell.payload_manager, "clear_payload", None)
    if state["trouble"]:
        return json.dumps({"trouble": state["trouble"]})
    worker: Any = next((t for t in threading.enumerate() if t.name == token), None)
    if worker is None:
        if source is None:
            return json.dumps({"trouble": "the thread that ran the source has gone"})
        worker = Worker(source, token, keep_s)
        worker.start()
    if not worker.done.wait(wait_s):
        return json.dumps({"pending": True})
    worker.taken.set()
    worker.join(1)
    return str(worker.reply)


class Worker(threading.Thread):
    """Runs the source in a thread of its own, so that a source that never ends does not block control.

    The thread is also the mailbox: it lives until its reply is taken, at most `keep_s` seconds, and leaves nothing.
    """

    def __init__(self, source: str, token: str, keep_s: float) -> None:
        super().__init__(name=token, daemon=True)
        self.source, self.keep_s, self.reply = source, keep_s, ""
        self.done, self.taken = threading.Event(), threading.Event()

    def run(self) -> None:
        space: Any = {"__name__": "__traindbg__"}
        try:
            exec(compile(self.source, "<traindbg>", "exec", dont_inherit=True), space)
            self.reply = json.dumps({"result": space["result"]})
        except BaseException as error:  # noqa: BLE001 - the asker is told; nothing may reach the kernel
            self.reply = json.dumps({"error": last_line(error)})
        self.done.set()
        self.taken.wait(self.keep_s)


def hush(owner: Any, name: str, reply: Any) -> None:
    """Answer this thread's next call of ``owner.name`` with `reply`, once; other threads reach the real method.

    Another client of ours may be at it on another thread: ``setdefault`` is atomic, whoever comes second waits.
    """
    me = threading.get_ident()
    own = vars(owner)

    def once(*args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() != me:
            return real(*args, **kwargs)
        if foreign:
            own[name] = real
        else:
            own.pop(name, None)
        return reply

    once.of_traindbg = True  # type: ignore[attr-defined]
    real, foreign = getattr(type(owner), name).__get__(owner), False
    give_up = time.monotonic() + 2
    while True:
        there = own.setdefault(name, once)
        if there is once:
            return
        if not getattr(there, "of_traindbg", False):  # somebody else's patch of this instance: keep it
            real, foreign = there, True
            own[name] = once
            return
        if time.monotonic() > give_up:
            raise RuntimeError("another client keeps " + name)
        time.sleep(0.001)


def give_back(kernel: Any) -> None:
    """Give the running cell back what our request has overwritten."""
    request = kernel.get_parent("shell")
    if request and request["header"]["msg_type"] == "execute_request":
        kernel._allow_stdin = bool(request["content"].get("allow_stdin", False))


def last_line(error: BaseException) -> str:
    return traceback.format_exception_only(type(error), error)[-1].strip()
