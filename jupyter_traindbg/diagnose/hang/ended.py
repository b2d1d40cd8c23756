"""A rank has ended, or the whole job has: by a signal, out of memory, by an exception, or with its work done while others wait for it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...frames.whose import frames_of, user_frame
from ...language import text
from ...model import Ending, Finding, NotAvailable, rank_subjects
from ...words.ranks import ranks_words
from .case import Case, Hit, View
from .words import alike, place

EXPLAINS = {"rank_ended": ("collective_not_issued",)}
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
        failed = told
    own = [v for v in failed if not _was_ended(v)]
    roots = [v for v in own if not _lost_a_peer(v)] or own or failed
    victims = [v for v in failed if v not in roots]
    hits = [_hit(case, same, victims) for same in alike(roots, _key)]
    if finished and not failed and case.overdue and any(v.now.kind != "teardown" for v in case.waiting):
        hits.append(_left(case, finished))
    return hits


def _ending(view: View) -> Ending:
    assert view.evidence.ending is not None
    return view.evidence.ending


def _was_ended(view: View) -> bool:
    """By a signal such as its launcher sends it after another one's failure."""
    return _ending(view).signal in FROM_OUTSIDE


def _lost_a_peer(view: View) -> bool:
    """It gave up as another rank was no longer there."""
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
    known = not (isinstance(ending.exit_code, NotAvailable) and isinstance(ending.signal, NotAvailable))
    name = _name(case, ranks)
    finding = Finding(
        "rank_ended",
        "critical",
        text(f"{name} ended: {how}", f"{name} 已结束：{how}"),
        rank_subjects(ranks),
        _where(ending),
        [*evidence, *case.others_wait(ranks)],
        _cause(ending, alone=case.over),
        _next_steps(ending, alone=case.over),
        confidence="high" if known else "medium",
    )
    return Hit(finding, [*ranks, *(v.rank for v in victims)])


def _of_victims(victims: Sequence[View]) -> list[str]:
    lost, terminated = [v.rank for v in victims if _lost_a_peer(v)], [v.rank for v in victims if not _lost_a_peer(v)]
    said = []
    if lost:
        names = ranks_words(lost)
        said.append(
            text(f"{names}: lost the connection to a rank that had ended", f"{names}：与已结束的 rank 失去连接")
        )
    if terminated:
        names = ranks_words(terminated)
        said.append(
            text(
                f"{names}: ended by a signal from outside, as a launcher does after a failure",
                f"{names}：被外部信号结束，启动器在失败后通常如此",
            )
        )
    return said


def _not_told(case: Case, gone: Sequence[View]) -> Hit:
    """Nothing is left of the job, and nobody has told how it ended: it may have finished."""
    ranks = [v.rank for v in gone]
    name = _name(case, ranks)
    finding = Finding(
        "rank_ended",
        "warning",
        text(f"{name} ended; how is not known", f"{name} 已结束；结束方式未知"),
        rank_subjects(ranks),
        None,
        [line for v in gone[:4] for line in _evidence(v)],
        text(
            "The exit status of a process is told to the one that started it, and to nobody else; it may have finished as it should.",
            "进程的退出状态只会告知启动它的进程；它也可能是正常结束的。",
        ),
        [
            *_look_at_log(_ending(gone[0])),
            text(
                "Ask who started it for its exit status: the shell's prompt, the scheduler (`sacct`), the container's runtime.",
                "向启动它的一方查询退出状态：shell、调度器（`sacct`）或容器运行时。",
            ),
        ],
        confidence="low",
    )
    return Hit(finding, ranks)


def _name(case: Case, ranks: Sequence[int]) -> str:
    """``Rank 2``; a training of one process has no ranks to speak of."""
    if case.evidence.world_size == 1:
        return text("The training process", "训练进程")
    return ranks_words(ranks).capitalize()


def _how(ending: Ending) -> str:
    if ending.out_of_memory is True:
        return text("the kernel killed it, out of memory", "内存不足，被内核杀死")
    if isinstance(ending.signal, str):
        return text(f"killed by {ending.signal}", f"被信号 {ending.signal} 杀死")
    said = _exception(ending)
    if said:
        return said
    if isinstance(ending.exit_code, int):
        return text(f"exit status {ending.exit_code}", f"退出状态 {ending.exit_code}")
    return text("the process is gone", "进程已不存在")


def _evidence(view: View) -> list[str]:
    ending = _ending(view)
    lines = [*(f"rank {view.rank}: {words}" for words in ending.evidence[:4])]
    if not lines:
        pid = text(f" (pid {ending.pid})", f"（pid {ending.pid}）") if ending.pid else ""
        how = _how(ending)
        lines.append(text(f"rank {view.rank}{pid} has ended: {how}", f"rank {view.rank}{pid} 已结束：{how}"))
    last = next((line for line in reversed(ending.last_lines) if any(map(str.isalnum, line))), "")
    if last:
        where = f" ({ending.log})" if ending.log else ""
        lines.append(text(f"the last line of its log{where}: {last.strip()}", f"其日志最后一行{where}：{last.strip()}"))
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
        return text(
            "The machine, or the container's limit, ran out of memory and the kernel chose this process.",
            "机器或容器的内存上限已耗尽，内核选择了该进程。",
        ) + ("" if alone else text(" The others wait for it for ever.", "其余 rank 会一直等它。"))
    causes = {
        "SIGKILL": text(
            "Somebody killed it outright: the kernel for lack of memory, a scheduler, a container's limit, or a "
            "person. It could not say a word.",
            "它被直接杀死：可能是内核（内存不足）、调度器、容器限制或人为操作。它来不及留下任何信息。",
        ),
        "SIGSEGV": text(
            "Native code touched memory that is not its own: an extension, a driver, or libraries that do not fit "
            "together.",
            "本地代码访问了非法内存：可能是扩展、驱动，或版本不匹配的库。",
        ),
        "SIGBUS": text(
            "A mapped file could not be filled: most often /dev/shm is full (DataLoader workers pass batches "
            "there), or a file was cut short.",
            "映射的文件无法填充：最常见的是 /dev/shm 已满（DataLoader worker 通过它传递 batch），或文件被截断。",
        ),
        "SIGABRT": text(
            "Native code gave up by itself: an uncaught C++ exception, a failed assertion, or NCCL's watchdog after "
            "its time-out.",
            "本地代码主动中止：未捕获的 C++ 异常、断言失败，或 NCCL 看门狗超时。",
        ),
    }
    if isinstance(ending.signal, str):
        outside = text("A signal from outside ended it", "外部信号结束了它")
        waits = text("; the others wait for it for ever.", "；其余 rank 会一直等它。")
        return causes.get(ending.signal, outside + (text(".", "。") if alone else waits))
    said = _exception(ending)
    if "op.preamble.length" in said:  # gloo's words where ranks disagree on the size
        return text(
            "The ranks passed tensors of different sizes to the same collective; gloo gave up on this one and the "
            "others wait.",
            "各 rank 对同一集合通信传入了大小不同的张量；gloo 在该 rank 上报错，其余 rank 仍在等待。",
        )
    if not alone:
        return text(
            "It left, by an exception or by an early exit, while the others count on it in their next collective.",
            "它因异常或提前退出而离开，而其余 rank 在下一次集合通信中仍需要它。",
        )
    if said:
        return text("An exception that nothing caught ended it.", "一个未被捕获的异常结束了它。")
    return text(
        "It ended by itself: by `sys.exit`, or by an exception whose text went elsewhere.",
        "它自行退出：调用了 `sys.exit`，或异常信息写到了别处。",
    )


def _look_at_log(ending: Ending) -> list[str]:
    if ending.log is None:
        return [text("Look at the end of what it wrote.", "查看它最后的输出。")]
    return [
        text(
            f"`traindbg diagnose {ending.log}` reads its whole log.",
            f"`traindbg diagnose {ending.log}` 会读取它的完整日志。",
        )
    ]


def _next_steps(ending: Ending, *, alone: bool) -> list[str]:
    if alone:
        look = _look_at_log(ending)[0]
        save = text(
            "Go on from its latest checkpoint; `traindbg checkpoint --inspect PATH` tells whether that one can be read.",
            "从最近的检查点继续；`traindbg checkpoint --inspect PATH` 可检查它是否可读。",
        )
    else:
        look = text("Look at its log above the last line", "查看其日志最后一行之前的内容") + (
            f": {ending.log}" if ending.log else ""
        )
        save = text(
            "The others are alive: `traindbg checkpoint TARGET DIR` saves what they hold before you stop the job.",
            "其余 rank 仍在：停止任务前可用 `traindbg checkpoint TARGET DIR` 保存它们的状态。",
        )
    if ending.out_of_memory is True or ending.signal == "SIGKILL":
        return [
            text(
                "See what needed the memory: `dmesg -T | grep -i oom`, the container's limit, `%memory` in the next "
                "run; fewer workers, smaller batches.",
                "查看内存用在哪里：`dmesg -T | grep -i oom`、容器上限、下次运行时用 `%memory`；减少 worker 数或 "
                "batch 大小。",
            ),
            save,
        ]
    if ending.signal == "SIGBUS":
        return [
            text(
                "See `df -h /dev/shm`; start the container with --shm-size=8g or --ipc=host.",
                "查看 `df -h /dev/shm`；以 --shm-size=8g 或 --ipc=host 启动容器。",
            ),
            save,
        ]
    if isinstance(ending.signal, str):
        return [
            look,
            text(
                "Run again with `python -X faulthandler` for a stack at the crash.",
                "用 `python -X faulthandler` 重新运行以获得崩溃时的调用栈。",
            ),
            save,
        ]
    return [look, save]


def _left(case: Case, finished: Sequence[View]) -> Hit:
    """With exit status 0: no launcher sees a failure, and yet the others count on it."""
    ranks = [v.rank for v in finished]
    steps = [v.pace.optimizer_step for v in case.views if v.pace is not None and v.pace.optimizer_step is not None]
    counted = (
        [text(f"the others are at optimizer step {max(steps)}", f"其余 rank 处于优化器第 {max(steps)} 步")]
        if steps
        else []
    )
    finding = Finding(
        "rank_ended",
        "critical",
        text(
            f"{ranks_words(ranks).capitalize()} left with exit status 0 while others still wait for it",
            f"{ranks_words(ranks)} 以退出状态 0 离开，而其余 rank 仍在等它",
        ),
        rank_subjects(ranks),
        None,
        [*(line for v in finished[:4] for line in _evidence(v)), *counted, *case.others_wait(ranks)],
        text(
            "It had nothing left to do: its share of the data is shorter, or it returned early. A launcher takes "
            "that for success and goes on waiting.",
            "它已无事可做：其数据份额较短，或提前返回。启动器将其视为成功并继续等待。",
        ),
        [
            text(
                "Give every rank the same number of batches (DistributedSampler, drop_last=True; with DDP: `with "
                "model.join():`), and let none "
                "return before the last collective.",
                "让每个 rank 的 batch 数相同（DistributedSampler、drop_last=True；DDP 可用 `with model.join():`），"
                "并确保没有 rank 在最后一次集合通信之前返回。",
            ),
            text(
                "Look at the last lines of its log: what did it find finished?",
                "查看其日志最后几行：它认为什么已经完成？",
            ),
        ],
        reference="https://docs.pytorch.org/docs/stable/distributed.algorithms.join.html",
    )
    return Hit(finding, ranks)
