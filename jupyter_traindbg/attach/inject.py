"""Getting the agent into an unprepared ``python train.py`` by its pid.

A small shared object (native/boot.c) is put into the agent's directory and loaded by one thread of the process that is parked in a
system call (parked.py, ptrace.py). It starts a thread of its own, which waits for the GIL, runs ``boot.py`` from that directory, and
unloads the object. The training thread is not stopped. What happens inside is followed by the files the object leaves there.

Only where no thread stays parked for a second, as in a program of one thread that computes without a pause, CPython is asked to have the
object loaded, by a call queued for its main thread (pending.py). That thread is stopped for some milliseconds then.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import logging
import os
import platform
import secrets
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn

from ..agent import rendezvous
from ..errors import CannotAttach, DeadlineExceeded, MissingPiece, NoSafeThread, TargetGone, TraindbgError
from ..language import text
from ..verbose import milliseconds
from . import access
from .parked import Look, Parked, look
from .place import Place, claimed

__all__ = ["Injected", "inject", "why_not"]

log = logging.getLogger(__name__)

OBJECT = Path(__file__).parent.parent / "native" / "boot.so"
HELPER = Path(__file__).with_name("ptrace.py")
MARKERS = ("queued", "native", "nopy", "nothread", "noload", "gil", "done", "boot.error")
_THREAD_PATIENCE_S = 1.0
_THREADS_AT_ONCE = 16
_MAIN_THREAD_PATIENCE_S = 2.0
_HELPER_START_S = 0.2
_GIL_PATIENCE_S = 1.0
_POLL_S = 0.002

# Helpers that were still inside a call when their caller's time was up. They must not be ended; they are reaped here when they are through.
_unfinished: list[subprocess.Popen[str]] = []


@dataclass(frozen=True)
class Injected:
    """``directory`` is as the target sees it; ``paused_s`` is how long thread ``tid`` was stopped, and no other was.

    ``tid`` is None where no thread was borrowed, because another injector's object was inside already. ``stage`` is ``"native"`` where
    the object waits for the GIL, or the queued call for C code on the main thread to return: the agent comes up then, and nothing may be
    injected again.
    """

    directory: str
    tid: int | None
    paused_s: float
    stage: Literal["done", "native"]


def why_not(pid: int) -> str | None:
    """Why `pid` cannot be entered, or None where it can, as far as can be told without touching it. Costs under 1 ms."""
    try:
        access.check(pid)
        if not OBJECT.exists():
            return _missing_object().cause
    except (CannotAttach, TargetGone) as error:
        return error.cause
    return None


def inject(pid: int, payload: Mapping[str, bytes], boot: str, deadline_s: float = 10.0) -> Injected:
    """Run the Python source `boot` inside process `pid`, with the files of `payload` beside it. Takes about 60 ms.

    `boot` runs in a thread of its own with all signals blocked, its ``__file__`` in the agent directory; what it raises comes back as
    `CannotAttach`. `payload` stays there for the agent to remove; where nothing came of it, it is removed here.

    Raises `TargetGone`, `NotPermitted`, `NoSafeThread`, `MissingPiece`, `CannotAttach`, and `DeadlineExceeded`; after the last the object
    may still arrive.
    """
    ends = time.monotonic() + deadline_s
    owner = access.check(pid)
    try:
        content = OBJECT.read_bytes()
    except FileNotFoundError:
        raise _missing_object() from None
    card_before = _card_stamp(owner)
    with claimed(owner, ends) as (place, waited):
        log.debug("process %d: the files go to its %s%s", pid, place.seen_inside, ", after another attach" * waited)
        if waited and _card_stamp(owner) not in (None, card_before):  # whoever we waited for has brought the agent up
            return Injected(place.seen_inside, None, 0.0, "done")
        if _somebody_inside(pid, place):
            log.debug("process %d: an earlier attach is inside already", pid)
            return Injected(place.seen_inside, None, 0.0, _arrival(pid, place, ends, payload))
        _check_executable(pid, place)
        name = f"boot-{secrets.token_hex(8)}.so"  # the loader takes a name it knows for the object it knows
        with _removing_what_failed(place, [*payload, "boot.py", name, *MARKERS]):
            for file, data in payload.items():
                place.write(file, data)
            place.write("boot.py", boot.encode())
            place.write(name, content, mode=0o700)
            tid, paused_s = _enter(pid, place, name, ends)
            log.debug("process %d: thread %d has loaded the object, stopped for %.1f ms", pid, tid, 1000 * paused_s)
            return Injected(place.seen_inside, tid, paused_s, _arrival(pid, place, ends, payload))


@contextlib.contextmanager
def _removing_what_failed(place: Place, names: list[str]) -> Iterator[None]:
    try:
        yield
    except DeadlineExceeded:
        raise  # the object is, or will be, inside: its files stay
    except Exception:  # not an interrupt: that may have left a helper at work
        place.remove(*names)
        place.remove_if_empty()
        raise


def _missing_object() -> MissingPiece:
    return MissingPiece(
        text("attaching by pid needs native/boot.so, which was not built when this package was installed"),
        text(
            "install a C compiler (Debian: apt install gcc libc6-dev), then `pip install --force-reinstall "
            "--no-deps jupyter-traindbg`; or {other}",
            other=text(access.PREPARED),
        ),
    )


def _card_stamp(owner: access.Identity) -> tuple[int, int] | None:
    """What tells one agent's card from another's; None where there is none."""
    try:
        directory = rendezvous.directory(owner.pid, owner.uid, f"/proc/{owner.pid}/root")
        card = os.stat(os.path.join(directory, rendezvous.CARD))
    except OSError:
        return None
    return card.st_ino, card.st_mtime_ns


def _somebody_inside(pid: int, place: Place) -> bool:
    """Whether an earlier object is on its way in, or waits there for the GIL. Files of one that is through are cleared away."""
    if (place.has("queued") or place.has("native")) and not place.has("done"):
        return True
    objects = [name for name in place.names() if name.startswith("boot-") and name.endswith(".so")]
    if objects and not place.has("done") and _is_traced(pid):
        raise DeadlineExceeded(
            text("an earlier attach to process {pid} still waits for its dynamic loader", pid=pid),
            text("wait: it goes on by itself; `traindbg stacks` shows from outside who holds the loader"),
        )
    place.remove("boot.py", *objects, *MARKERS)
    return False


def _is_traced(pid: int) -> bool:
    """Whether any thread is under ptrace, as one that was borrowed is until its call returns."""
    for tid in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{pid}/task/{tid}/status") as f:
            if any(line.startswith("TracerPid:") and line.split()[1] != "0" for line in f):
                return True
    return False


def _check_executable(pid: int, place: Place) -> None:
    if os.statvfs(f"/proc/{pid}/root{place.seen_inside}").f_flag & os.ST_NOEXEC:
        place.remove_if_empty()
        raise CannotAttach(text("/tmp of process {pid} is mounted noexec, so nothing can be loaded from it", pid=pid))


# --- going in -------------------------------------------------------------------------------------------------------


def _enter(pid: int, place: Place, name: str, ends: float) -> tuple[int, float]:
    """Have one thread load the object `name`; returns that thread and for how long it was stopped."""
    path = os.path.join(place.seen_inside, name)
    try:
        return _by_parked_thread(pid, path, ends)
    except NoSafeThread as none_parked:
        log.debug("%s", none_parked.cause)
        access.check(pid)  # it may have been stopped since, which then is the reason
        if platform.machine() != "x86_64":
            raise
        return _by_pending_call(pid, place, path, ends, none_parked.cause)


def _by_pending_call(pid: int, place: Place, path: str, ends: float, none_parked: str) -> tuple[int, float]:
    """Have CPython load the object from the main thread, which is then interrupted where it computes."""
    limit_s = min(_MAIN_THREAD_PATIENCE_S, ends - time.monotonic() - _HELPER_START_S)
    if limit_s <= 0:
        raise NoSafeThread(
            text("{none}; there was no time left to try its main thread", none=none_parked),
            text("give a longer --timeout"),
        )
    words = ["queue", str(pid), path, str(OBJECT), str(limit_s)]
    answer = _helped(words, ends, text("the main thread of process {pid} has not been put back yet", pid=pid))
    if answer["status"] in ("moved", "unfit"):
        raise NoSafeThread(
            text(
                "{none}, nor its main thread be interrupted where it computes ({detail})",
                none=none_parked,
                detail=answer["detail"],
            )
        )
    if answer["status"] != "done":
        _fail(pid, answer)
    place.write("queued", b"")
    return pid, float(answer["paused_s"])


def _by_parked_thread(pid: int, path: str, ends: float) -> tuple[int, float]:
    now = time.monotonic()
    give_up = now + min(_THREAD_PATIENCE_S, (ends - now) / 2)
    unfit: dict[int, str] = {}
    told = ""
    while True:
        seen = _look(pid)
        if (words := seen.words()) != told:
            log.debug("process %d: %s", pid, told := words)
        threads = [thread for thread in seen.parked if thread.tid not in unfit]
        if threads:
            answer = _borrow(pid, threads[:_THREADS_AT_ONCE], path, ends)
            if answer["status"] == "done":
                return int(answer["tid"]), float(answer["paused_s"])
            unfit |= {int(tid): detail for tid, detail in answer["unfit"].items()}
            of_threads_only = answer["status"] in ("moved", "unfit") or (
                answer["status"] == "gone" and not _is_gone(pid)
            )
            if not of_threads_only:
                _fail(pid, answer)
        if time.monotonic() > give_up:
            reasons = {*unfit.values()} | ({seen.why_none()} if seen.others else set())
            reasons |= {text("{n} that come and go", n=len(threads))} if threads else set()
            why = text(", ").join(sorted(reasons)) or text("none stays parked")
            raise NoSafeThread(text("no thread of process {pid} can be borrowed safely ({why})", pid=pid, why=why))
        time.sleep(0.01)


def _look(pid: int) -> Look:
    try:
        return look(pid)
    except ProcessLookupError:
        raise TargetGone(text("process {pid} has ended", pid=pid)) from None
    except PermissionError:
        raise access.not_permitted(pid) from None


def _borrow(pid: int, threads: Sequence[Parked], path: str, ends: float) -> dict[str, Any]:
    named = [word for thread in threads for word in (str(thread.tid), thread.syscall)]
    words = ["load", str(pid), path, *named, *_other_machine()]
    late = text(
        "the dynamic loader of process {pid} has not let the borrowed thread through yet; another thread holds it",
        pid=pid,
    )
    return _helped(words, ends, late)


def _helped(words: list[str], ends: float, late: str) -> dict[str, Any]:
    """The helper's answer (see ptrace.py). Raises `DeadlineExceeded` where the call has not returned; the helper stays with it."""
    _reap()
    helper = subprocess.Popen(
        [*_helper_command(), *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # what is sent to the notebook's group must not reach it
        cwd="/",
    )
    assert helper.stdout is not None
    assert helper.stderr is not None
    answered = False
    try:
        answered = _readable(helper.stdout.fileno(), ends)
    finally:
        if not answered:  # late, or we are being interrupted: it must go on
            _unfinished.append(helper)
    if not answered:
        raise DeadlineExceeded(
            late,
            text(
                "wait: it goes on by itself, and the agent then comes up; `traindbg stacks` looks from outside "
                "meanwhile"
            ),
        )
    with helper:  # it ends right after its line
        line, complaint = helper.stdout.readline(), helper.stderr.read()
    if not line:
        last = complaint.strip().rpartition("\n")[2]
        raise CannotAttach(
            text(
                "the helper that enters process {pid} failed with status {status}: {last}",
                pid=words[1],
                status=helper.returncode,
                last=last,
            )
        )
    answer: dict[str, Any] = json.loads(line)
    said = ", ".join(f"{name} {value}" for name, value in answer.items() if value)
    log.debug("process %s: the helper that is to %s the object: %s", words[1], words[0], said)
    return answer


def _reap() -> None:
    for helper in list(_unfinished):
        if helper.poll() is not None:
            with contextlib.suppress(ValueError), helper:  # another thread may have been quicker
                _unfinished.remove(helper)


def _readable(fd: int, ends: float) -> bool:
    """Whether something can be read from `fd` before `ends`."""
    poll = select.poll()  # select() fails on the descriptors above 1023 that a long-lived kernel has
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(max(0.0, ends - time.monotonic()) * 1000))


def _helper_command() -> list[str]:
    return [sys.executable, "-I", "-S", str(HELPER)]


def _other_machine() -> list[str]:
    """Extra words for machines whose registers ptrace.py does not know: where pyinjector is."""
    return [] if platform.machine() == "x86_64" else ["--pyinjector", _pyinjector_folder()]


def _pyinjector_folder() -> str:
    spec = importlib.util.find_spec("pyinjector")
    if spec is None or spec.origin is None:
        raise MissingPiece(
            text("attaching by pid on {machine} needs pyinjector", machine=platform.machine()),
            text("{step}; or {other}", step="`pip install pyinjector`", other=text(access.PREPARED)),
        )
    return str(Path(spec.origin).parent.parent)


def _fail(pid: int, answer: Mapping[str, Any]) -> NoReturn:
    status, detail = answer["status"], answer["detail"]
    if status == "gone":
        raise TargetGone(text("process {pid} ended while it was being entered", pid=pid))
    if status == "forbidden":
        raise access.not_permitted(pid)
    if status == "no_loader":
        raise CannotAttach(text("what is needed to enter process {pid} is not in it: {detail}", pid=pid, detail=detail))
    if status == "failed":
        raise CannotAttach(text("process {pid} could not load the bootstrap object: {detail}", pid=pid, detail=detail))
    raise CannotAttach(
        text(
            "process {pid} could not be entered: {status} {detail}; the thread was put back",
            pid=pid,
            status=status,
            detail=detail,
        )
    )


# --- arriving -------------------------------------------------------------------------------------------------------


def _arrival(pid: int, place: Place, ends: float, payload: Mapping[str, bytes]) -> Literal["done", "native"]:
    """Wait until boot.py has run, or until it is clear that it waits for the GIL. Raises what went wrong inside."""
    inside_since: float | None = None
    began = time.monotonic()
    while not place.has("done"):
        now = time.monotonic()
        if place.has("nothread") or place.has("noload"):
            place.remove("queued", "nothread", "noload")
            raise CannotAttach(
                text("process {pid} cannot start another thread, or load anything", pid=pid),
                text("look at its limits: `ulimit -u`, memory"),
            )
        if inside_since is None and (place.has("queued") or place.has("native")):
            inside_since = now
        waits_for_gil = inside_since is not None and not place.has("gil")
        if inside_since is not None and waits_for_gil and (now > ends or now - inside_since > _GIL_PATIENCE_S):
            log.debug("process %d: the object waits for the GIL, after %s", pid, milliseconds(began))
            return "native"
        if now > ends:
            raise DeadlineExceeded(
                text("the bootstrap in process {pid} has not ended yet; it goes on by itself", pid=pid)
            )
        if _is_gone(pid):
            raise TargetGone(text("process {pid} ended while it was being entered", pid=pid))
        time.sleep(_POLL_S)
    log.debug("process %d: the bootstrap has run, after %s", pid, milliseconds(began))
    return _outcome(pid, place, payload)


def _outcome(pid: int, place: Place, payload: Mapping[str, bytes]) -> Literal["done"]:
    error: TraindbgError | None = None
    if place.has("nopy"):
        error = CannotAttach(text("no running Python interpreter was found in process {pid}", pid=pid))
    elif place.has("boot.error"):
        last = place.read_text("boot.error").strip().rpartition("\n")[2]
        error = CannotAttach(
            text(
                "the bootstrap failed inside process {pid}: {last}",
                pid=pid,
                last=last or text("no traceback could be written"),
            ),
            text("the training goes on unharmed; please report this text"),
        )
    place.remove("boot.py", *MARKERS)
    if error is not None:
        place.remove(*payload)
        place.remove_if_empty()
        raise error
    return "done"


def _is_gone(pid: int) -> bool:
    try:
        return access.identity(pid).state in "ZX"
    except TargetGone:
        return True
