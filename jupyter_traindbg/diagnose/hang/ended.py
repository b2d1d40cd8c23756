"""A rank has ended, or the whole job has: by a signal, out of memory, by an exception, or with its work done while others wait for it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...frames.whose import frames_of, user_frame
from ...language import text
from ...model import Ending, Finding, NotAvailable, rank_subjects
from ...words.ranks import ranks_words
from .case import Case, Hit, View
from .doing import phrase
from .words import alike, place, short_place

EXPLAINS = {"rank_ended": ("collective_not_issued", "python_wait")}
_TRACEBACK_LINE = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)')
_EXCEPTION = re.compile(r"(?:\[rank\d+\]:\s*)?(?P<said>[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit|Warning)\b.*)")
_PEER_LOST = re.compile(
    r"connection (?:was )?(?:reset|closed)|broken pipe|remote (?:process|peer|worker)|ncclRemoteError", re.IGNORECASE
)
LAST_WORDS = 8
"""So many lines, the exception's own among them, may stand at the end of a log that ends with a traceback."""
FROM_OUTSIDE = ("SIGTERM", "SIGINT", "SIGHUP")


def rule(case: Case) -> list[Hit]:
    """Those that failed by themselves; those that failed because of them, or were ended by their launcher, are told in the evidence."""
    ended = [v for v in case.roles("ended") if v.evidence.ending is not None]
    finished = [v for v in ended if _ending(v).exit_code == 0]
    failed = [v for v in ended if v not in finished]
    if case.over and failed:
        told = [v for v in failed if _told(_ending(v))]
        if not told:
            return [_not_told(case, failed)]
        failed = told if not all(map(lost_a_peer, told)) else failed
    own = [v for v in failed if not _was_ended(v)]
    roots = [v for v in own if not lost_a_peer(v)] or own or failed
    victims = [v for v in failed if v not in roots]
    hits = [_hit(case, same, victims) for same in alike(roots, _key)]
    if finished and not failed and case.overdue:
        poll = [v for v in case.blocked if v.now.kind == "sleep"]
        if any(v.now.kind != "teardown" for v in case.waiting):
            hits.append(_left(case, finished))
        elif len(poll) == len(case.views) - len(ended) and len(finished) <= len(poll):
            hits.append(_polled_for(case, finished, poll))
    return hits


def _ending(view: View) -> Ending:
    assert view.evidence.ending is not None
    return view.evidence.ending


def _was_ended(view: View) -> bool:
    """By a signal such as its launcher sends it after another one's failure."""
    return _ending(view).signal in FROM_OUTSIDE


def lost_a_peer(view: View) -> bool:
    """Whether it gave up as another rank was no longer there."""
    return _PEER_LOST.search(_exception(_ending(view))) is not None


def _told(ending: Ending) -> bool:
    """Whether anybody has told how it ended: who waited for it, the kernel, or, by a traceback, its own last words."""
    known = isinstance(ending.exit_code, int) or isinstance(ending.signal, str) or ending.out_of_memory is True
    return known or _raised_at_the_end(ending)


def _raised_at_the_end(ending: Ending) -> bool:
    """Whether its log ends with a traceback, a few words of exit handlers behind it left out. One that was caught is followed by more."""
    lines = ending.last_lines
    frames = [i for i, line in enumerate(lines) if _TRACEBACK_LINE.search(line)]
    if not frames:
        return False
    after = (i for i in range(frames[-1] + 1, len(lines)) if _EXCEPTION.match(lines[i].strip()))
    at = next(after, None)
    return at is not None and len(lines) - at <= LAST_WORDS


def _key(view: View) -> tuple[object, ...]:
    ending = _ending(view)
    return str(ending.exit_code), str(ending.signal), str(ending.out_of_memory), _where(ending), _exception(ending)


def _hit(case: Case, same: Sequence[View], victims: Sequence[View]) -> Hit:
    ending, ranks = _ending(same[0]), [v.rank for v in same]
    how = _how(ending)
    evidence = [line for v in same[:4] for line in _evidence(v)]
    evidence += _of_victims(victims)
    failure = _failure(ending)
    if failure is not None:
        evidence.append(text("its last lines show: {title}", title=failure.title))
    known = not (isinstance(ending.exit_code, NotAvailable) and isinstance(ending.signal, NotAvailable))
    name = _name(case, ranks)
    finding = Finding(
        "rank_ended",
        "critical",
        text("{name} ended: {how}", name=name, how=how),
        rank_subjects(ranks),
        _where(ending) or (failure.where if failure else None),
        [*evidence, *case.others_wait(ranks)],
        (failure.cause if failure else "") or _cause(ending, alone=case.over),
        _next_steps(ending, failure, alone=case.over),
        confidence="high" if known else "medium",
    )
    return Hit(finding, [*ranks, *(v.rank for v in victims)])


def _of_victims(victims: Sequence[View]) -> list[str]:
    lost, terminated = [v.rank for v in victims if lost_a_peer(v)], [v.rank for v in victims if not lost_a_peer(v)]
    said = []
    if lost:
        names = ranks_words(lost)
        said.append(text("{names}: lost the connection to a rank that had ended", names=names))
    if terminated:
        names = ranks_words(terminated)
        said.append(text("{names}: ended by a signal from outside, as a launcher does after a failure", names=names))
    return said


def _not_told(case: Case, gone: Sequence[View]) -> Hit:
    """Nothing is left of the job, and nobody has told how it ended: it may have finished."""
    ranks = [v.rank for v in gone]
    name = _name(case, ranks)
    finding = Finding(
        "rank_ended",
        "warning",
        text("{name} ended; how is not known", name=name),
        rank_subjects(ranks),
        None,
        [line for v in gone[:4] for line in _evidence(v)],
        text(
            "The exit status of a process is told to the one that started it, and to nobody else; it may "
            "have finished as it should."
        ),
        [
            *_look_at_log(_ending(gone[0])),
            text(
                "Ask who started it for its exit status: the shell's prompt, the scheduler (`sacct`), the "
                "container's runtime."
            ),
        ],
        confidence="low",
    )
    return Hit(finding, ranks)


def _name(case: Case, ranks: Sequence[int]) -> str:
    """``Rank 2``; a training of one process has no ranks to speak of."""
    if case.evidence.world_size == 1:
        return text("The training process")
    return ranks_words(ranks).capitalize()


def _how(ending: Ending) -> str:
    if ending.out_of_memory is True:
        return text("the kernel killed it, out of memory")
    if isinstance(ending.signal, str):
        return text("killed by {signal}", signal=ending.signal)
    said = _exception(ending)
    if said:
        return said
    if isinstance(ending.exit_code, int):
        return text("exit status {exit_code}", exit_code=ending.exit_code)
    return text("the process is gone")


def _failure(ending: Ending) -> Finding | None:
    """What is known of how it failed. A signal that the process did not give itself comes from somewhere else, whatever was printed."""
    by_itself = not isinstance(ending.signal, str) or ending.signal == "SIGABRT"
    return ending.failure if by_itself and ending.out_of_memory is not True else None


def _evidence(view: View) -> list[str]:
    ending = _ending(view)
    lines = [*(f"rank {view.rank}: {words}" for words in ending.evidence[:4])]
    if not lines:
        pid = text(" (pid {pid})", pid=ending.pid) if ending.pid else ""
        how = _how(ending)
        lines.append(text("rank {rank}{pid} has ended: {how}", rank=view.rank, pid=pid, how=how))
    last = next((line for line in reversed(ending.last_lines) if any(map(str.isalnum, line))), "")
    if last:
        where = f" ({ending.log})" if ending.log else ""
        lines.append(text("the last line of its log{where}: {last}", where=where, last=last.strip()))
    return lines


def _exception(ending: Ending) -> str:
    """The last line of a traceback: ``RuntimeError: ...``."""
    for line in reversed(ending.last_lines):
        match = _EXCEPTION.match(line.strip())
        if match:
            return match["said"][:200]
    return ""


def _where(ending: Ending) -> str | None:
    """The innermost line of the user's code in the last traceback of its log."""
    if isinstance(ending.signal, str) and not _exception(ending):
        return None
    matches = [m for line in ending.last_lines if (m := _TRACEBACK_LINE.search(line))]
    innermost_first = [(m["file"], int(m["line"]), m["function"]) for m in reversed(matches)]
    return place(user_frame(frames_of(innermost_first)))


def _cause(ending: Ending, *, alone: bool) -> str:
    """`alone`: there are no others that wait for it."""
    if ending.out_of_memory is True:
        return text("The machine, or the container's limit, ran out of memory and the kernel chose this process.") + (
            "" if alone else text(" The others wait for it for ever.")
        )
    causes = {
        "SIGKILL": text(
            "Somebody killed it outright: the kernel for lack of memory, a scheduler, a container's limit, "
            "or a person. It could not say a word."
        ),
        "SIGSEGV": text(
            "Native code touched memory that is not its own: an extension, a driver, or libraries that do "
            "not fit together."
        ),
        "SIGBUS": text(
            "A mapped file could not be filled: most often /dev/shm is full (DataLoader workers pass batches "
            "there), or a file was cut short."
        ),
        "SIGABRT": text(
            "Native code gave up by itself: an uncaught C++ exception, a failed assertion, or NCCL's "
            "watchdog after its time-out."
        ),
    }
    if isinstance(ending.signal, str):
        outside = text("A signal from outside ended it")
        waits = text("; the others wait for it for ever.")
        return causes.get(ending.signal, outside + (text(".") if alone else waits))
    said = _exception(ending)
    if "op.preamble.length" in said:  # gloo's words where ranks disagree on the size
        return text(
            "The ranks passed tensors of different sizes to the same collective; gloo gave up on this one "
            "and the others wait."
        )
    if not alone:
        return text(
            "It left, by an exception or by an early exit, while the others count on it in their next collective."
        )
    if said:
        return text("An exception that nothing caught ended it.")
    return text("It ended by itself: by `sys.exit`, or by an exception whose text went elsewhere.")


def _look_at_log(ending: Ending) -> list[str]:
    if ending.log is None:
        return [text("Look at the end of what it wrote.")]
    return [text("`traindbg diagnose {log}` reads its whole log.", log=ending.log)]


def _next_steps(ending: Ending, failure: Finding | None, *, alone: bool) -> list[str]:
    if alone:
        look = _look_at_log(ending)[0]
        save = text(
            "Go on from its latest checkpoint; `traindbg checkpoint --inspect PATH` tells whether that one can be read."
        )
    else:
        look = text("Look at its log above the last line") + (f": {ending.log}" if ending.log else "")
        save = text(
            "The others are alive: `traindbg checkpoint TARGET DIR` saves what they hold before you stop the job."
        )
    if failure is not None and failure.next_steps:
        return [*failure.next_steps, look, save]
    if ending.out_of_memory is True or ending.signal == "SIGKILL":
        return [
            text(
                "See what needed the memory: `dmesg -T | grep -i oom`, the container's limit, `%memory` in the "
                "next run; fewer workers, smaller batches."
            ),
            save,
        ]
    if ending.signal == "SIGBUS":
        return [
            text("See `df -h /dev/shm`; start the container with --shm-size=8g or --ipc=host."),
            save,
        ]
    if isinstance(ending.signal, str):
        return [
            look,
            text("Run again with `python -X faulthandler` for a stack at the crash."),
            save,
        ]
    return [look, save]


def _left(case: Case, finished: Sequence[View]) -> Hit:
    """With exit status 0: no launcher sees a failure, and yet the others count on it."""
    ranks = [v.rank for v in finished]
    steps = [v.pace.optimizer_step for v in case.views if v.pace is not None and v.pace.optimizer_step is not None]
    counted = [text("the others are at optimizer step {steps}", steps=max(steps))] if steps else []
    finding = Finding(
        "rank_ended",
        "critical",
        text(
            "{ranks} left with exit status 0 while others still wait for it",
            ranks=ranks_words(ranks).capitalize(),
            ranks2=ranks_words(ranks),
        ),
        rank_subjects(ranks),
        None,
        [*(line for v in finished[:4] for line in _evidence(v)), *counted, *case.others_wait(ranks)],
        text(
            "It had nothing left to do: its share of the data is shorter, or it returned early. A launcher "
            "takes that for success and goes on waiting."
        ),
        [
            text(
                "Give every rank the same number of batches (DistributedSampler, drop_last=True; with DDP: `with "
                "model.join():`), and let none return before the last collective."
            ),
            text("Look at the last lines of its log: what did it find finished?"),
        ],
        reference="https://docs.pytorch.org/docs/stable/distributed.algorithms.join.html",
    )
    return Hit(finding, ranks)


def _polled_for(case: Case, finished: Sequence[View], poll: Sequence[View]) -> Hit:
    """No call tells that the rest waits for it: they sleep and look again, and all that has changed is that it is gone."""
    ranks, others = [v.rank for v in finished], [v.rank for v in poll]
    words, at = ranks_words(ranks), short_place(poll[0].now.frame)
    sleep = "sleeps" if len(others) == 1 else "sleep"
    finding = Finding(
        "rank_ended",
        "critical",
        text(
            "{ranks} left with exit status 0, and {others} {sleep} at {at}: what they look for does not come",
            ranks=words.capitalize(),
            others=ranks_words(others),
            sleep=sleep,
            at=at,
            ranks2=words,
        ),
        rank_subjects(ranks),
        None,
        [
            *(line for v in finished[:4] for line in _evidence(v)),
            *(
                text("rank {rank} {phrase} at {at}", rank=v.rank, phrase=phrase(v.now), at=case.at(v.now))
                for v in poll[:4]
            ),
        ],
        text(
            "They poll for something that {ranks} most likely was to bring: a file, a key, a count. It returned early, or had nothing left "
            "to do, and a launcher takes that for success.",
            ranks=words,
        ),
        [
            text(
                "See at {at} what is looked for, and on which way {ranks} can end without bringing it.",
                at=at,
                ranks=words,
            ),
            text("Look at the last lines of its log: what did it find finished?"),
        ],
        confidence="medium",
    )
    return Hit(finding, [*ranks, *others])
