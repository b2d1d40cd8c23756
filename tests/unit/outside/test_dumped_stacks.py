"""What py-spy, pystack, faulthandler and gdb have printed, read: each format as the real tool wrote it, pasted, prefixed, and damaged."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pytest
from cases import each
from dumps import ALL_REDUCE, BARRIER, py_spy

from jupyter_traindbg.errors import BadDump, BadLog
from jupyter_traindbg.model import DumpedProcess, NotAvailable, Wait
from jupyter_traindbg.outside import dumped_stacks
from jupyter_traindbg.outside.dumped_stacks import Dump, holds_stacks, read, told
from jupyter_traindbg.outside.dumped_stacks.processes import dumped

RECORDED = Path(__file__).parent / "recorded_dumps"
ONE_PROCESS = [
    "py_spy.txt", "py_spy_native.txt", "py_spy_locals.txt", "py_spy.json", "py_spy_3.13.txt", "pystack.txt", "pystack_native_locals.txt",
    "pystack_core.txt", "pystack_3.13.txt", "gdb.txt", "faulthandler_3.11.txt", "faulthandler_3.13.txt",
]  # fmt: skip
OF_3_14 = """\
Timeout (0:00:30)!
Thread 0x00007f3a1b7fe6c0 [uploader] (most recent call first):
  File "/srv/job/train.py", line 13 in upload
  File "/usr/lib/python3.14/threading.py", line 1023 in run

Current thread 0x00007f3a1c1d2b80 [python3] (most recent call first):
  File "/srv/job/train.py", line 18 in save
  File "/srv/job/train.py", line 24 in <module>

Current thread's C stack trace (most recent call first):
  Binary file "/usr/bin/python3.14", at _Py_DumpStack+0x3b [0x6d5a3b]
  Binary file "/usr/bin/python3.14" [0x6e1f04]
"""


def read_text(words: str) -> Dump:
    return dumped_stacks.read_text(words, ends=time.monotonic() + 60)


def recorded(name: str) -> list[DumpedProcess]:
    return [dumped(process, name) for process in read_text((RECORDED / name).read_text()).processes]


@each("name", ONE_PROCESS)
def test_what_a_tool_has_printed_of_a_program(name: str) -> None:
    assert holds_stacks((RECORDED / name).read_bytes())
    assert read_text((RECORDED / name).read_text()).counts
    (process,) = recorded(name)
    main, uploader = process.stacks.threads
    assert main.training
    assert not uploader.training
    top = main.frames[0]
    assert (Path(top.file).name, top.line, top.function.rsplit(".", 1)[-1], top.library) == (
        "train.py",
        18,
        "save",
        False,
    )
    assert [f.line for f in main.frames] == [18, 24]
    inner, *outer = uploader.frames
    assert (inner.line, inner.function) == (13, "upload")
    assert outer
    assert all(frame.library for frame in outer), "a short name of Python's own is taken for the user's"
    assert process.stacks.role == "rank"
    if "faulthandler" not in name:
        assert process.stacks.pid > 0


def test_who_waits_for_what_as_far_as_each_tool_tells() -> None:
    def waits(name: str) -> tuple[object, object]:
        main, uploader = recorded(name)[0].stacks.threads
        return main.waiting_for, uploader.waiting_for

    assert waits("py_spy.txt") == (None, None)
    assert waits("py_spy_native.txt") == (Wait("lock"), Wait("sleep"))
    assert waits("gdb.txt") == (Wait("lock"), Wait("sleep"))
    assert waits("pystack.txt") == (Wait("native"), Wait("sleep")), "the quoted lines tell"
    assert waits("faulthandler_3.11.txt") == (None, None)
    state = recorded("faulthandler_3.11.txt")[0].stacks.threads[0].state
    assert isinstance(state, NotAvailable)
    assert recorded("py_spy.txt")[0].stacks.threads[0].state == "waiting"


def test_a_quoted_line_and_the_locals_come_along() -> None:
    (process,) = recorded("pystack.txt")
    assert process.quotes["/srv/job/train.py:18"] == "with lock:"
    for name in ("py_spy_locals.txt", "py_spy.json", "pystack_native_locals.txt"):
        (process,) = recorded(name)
        assert process.variables["rank"] == "3"
        assert (process.rank, process.hint) == (None, 3), "a local of that name may say it"


def test_ray_stack_is_several_processes() -> None:
    found = recorded("ray_stack.txt")
    assert [p.stacks.command.split()[0] for p in found] == ["ray::Trainer.step", "ray::Loader"]
    assert len({p.stacks.pid for p in found}) == 2


def test_threads_of_python_3_14_have_names() -> None:
    (process,) = read_text(OF_3_14).processes
    seen = dumped(process, "dump.txt")
    assert [(t.name, t.frames[0].line) for t in seen.stacks.threads] == [("python3", 18), ("uploader", 13)]


def test_a_crash_belongs_to_its_log() -> None:
    crash = OF_3_14.replace("Timeout (0:00:30)!", "Fatal Python error: Segmentation fault\n")
    assert list(read_text(crash).processes) == []


# --- pasted, prefixed, several


@each(
    "words",
    [
        "It hangs:\n```text\n{dump}\n```\nthanks",
        "{indented}",
        "> it hangs\n{quoted}",
        "2026-03-04 10:00:00 INFO step 3 (train.py:12)\n\n{dump}\n\n2026-03-04 10:00:09 INFO bye (train.py:13)\n",
        "{coloured}",
        "{crlf}",
    ],
    ids=["a fence", "indented", "a quote", "amid a log", "colours", "line ends"],
)
def test_a_dump_that_was_pasted(words: str) -> None:
    dump = py_spy(4711, ALL_REDUCE)
    rows = dump.splitlines()
    pasted = words.format(
        dump=dump,
        indented="\n".join(f"    {row}" for row in rows),
        quoted="\n".join(f"> {row}" for row in rows),
        coloured=dump.replace("Thread 4711", "Thread \x1b[33m4711\x1b[0m").replace(
            "train.py:42", "\x1b[2mtrain.py:42\x1b[0m"
        ),
        crlf=dump.replace("\n", "\r\n"),
    )
    assert holds_stacks(pasted.encode())
    (process,) = read_text(pasted).processes
    (thread,) = process.threads
    assert [f.line for f in thread.frames] == [3100, 81, 42, 90, 99]


@each("prefix", ["[rank{}]: ", "[{}]: ", "[1,{}]<stdout>: ", "[default{}]: "])
def test_ranks_that_write_at_once_are_told_apart(prefix: str) -> None:
    dumps = [py_spy(4000 + rank, BARRIER if rank else ALL_REDUCE).splitlines() for rank in range(2)]
    mixed = [
        prefix.format(rank) + row for rows in zip(*(d[:7] for d in dumps), strict=True) for rank, row in enumerate(rows)
    ]
    found = read_text("\n".join(mixed)).processes
    assert sorted((p.rank, p.pid) for p in found) == [(0, 4000), (1, 4001)]
    assert [p.threads[0].frames[0].function for p in found] == ["all_reduce", "barrier"]


def test_the_rank_is_told_by_the_command_line_or_the_environment() -> None:
    by_option = read_text(py_spy(1, BARRIER, command="python train.py --local_rank=3")).processes
    by_variable = read_text("RANK=5\n" + py_spy(1, BARRIER)).processes
    nobody = read_text(py_spy(1, BARRIER)).processes
    assert [(p.rank, p.hint) for p in (*by_option, *by_variable, *nobody)] == [(None, 3), (5, None), (None, None)]


def test_several_looks_and_children_in_one_text() -> None:
    twice = py_spy(1, BARRIER) + "\n" + py_spy(1, ALL_REDUCE)
    assert [p.pid for p in read_text(twice).processes] == [1, 1]
    child = py_spy(7, ALL_REDUCE).replace("\n\n", "\nParent Process 1: python train.py\n\n")
    below = read_text(py_spy(1, BARRIER) + "\n" + "-" * 80 + "\n" + child).processes
    assert [(p.pid, p.parent) for p in below] == [(1, None), (7, 1)]


def test_why_there_are_no_stacks_is_kept() -> None:
    failed = "Process 9: python train.py\nPython v3.11.7 (/opt/python)\n\nError: Failed to get stack traces\n\nCaused by:\n    0: no\n"
    (process,) = read_text(failed).processes
    assert process.problem == "Failed to get stack traces"


def test_only_the_program_itself_keeps_a_name_like_pythons_own() -> None:
    """A script that is called ``queue.py`` is the user's where it was started, and named in full where the command line does so."""
    frames = ("work (queue.py:3)", "<module> (queue.py:9)")
    (process,) = read_text(py_spy(1, frames, command="python /home/ada/queue.py")).processes
    assert [f.file for f in process.threads[0].frames] == ["/home/ada/queue.py"] * 2
    (process,) = read_text(
        py_spy(1, ("get (queue.py:171)", "load (mine/data.py:3)", "<module> (train.py:9)"))
    ).processes
    names = [f.file for f in process.threads[0].frames]
    assert names[0].endswith("/lib/python3.11/queue.py")
    assert names[1:] == ["mine/data.py", "train.py"]


# --- what is no dump, or a hostile one


@each(
    "words",
    [
        "",
        "step 3 loss 0.1\n",
        'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    f()\nValueError\n',
        "[rank0]: hello\n",
    ],
)
def test_a_log_is_no_dump(words: str) -> None:
    assert not holds_stacks(words.encode())
    assert list(read_text(words).processes) == []


def test_a_log_in_which_a_program_has_once_dumped_its_stacks_stays_one() -> None:
    log = "".join(f"step {i} loss 0.1\n" for i in range(200))
    found = read_text(log + OF_3_14)
    assert found.processes
    assert not found.counts
    assert "step 199" in found.rest
    assert "most recent call first" not in found.rest


@each(
    "words",
    [
        'Process 1: x\nThread 1 (idle): "MainThread"\n' + "    f (a.py:1)\n" * 5000,
        "".join(f'Process {i}: x\nThread {i} (idle): "MainThread"\n    f (a.py:1)\n' for i in range(5000)),
        "Process 1: x\n" + "".join(f'Thread {i} (idle): "x"\n    f (a.py:1)\n' for i in range(1, 5000)),
        "".join(f"[rank{i}]: Thread 0x1 (most recent call first):\n" for i in range(6000)),
    ],
    ids=["frames", "processes", "threads", "writers"],
)
def test_what_is_too_much_is_left_out_and_said(words: str) -> None:
    found = read_text(words)
    assert len(found.processes) <= told.MOST_PROCESSES
    assert all(
        len(p.threads) <= told.MOST_THREADS and len(t.frames) <= told.MOST_FRAMES
        for p in found.processes
        for t in p.threads
    )
    assert found.notes


@each(
    "words",
    [
        '[{"pid":' * 20_000,
        '[\n{"pid": ' + "[" * 100_000,
        '[{"pid": 1, "frames": [\n' * 2000,
        '[{"pid": null, "frames": [1, {"filename": 3}]}]',
    ],
)
def test_json_that_is_damaged(words: str) -> None:
    assert list(read_text(words).processes) == []


def test_a_text_that_was_not_read_in_time_says_so() -> None:
    found = dumped_stacks.read_text(
        'Process 1: x\nThread 1 (idle): "MainThread"\n' + "    f (a.py:1)\n" * 4000, ends=time.monotonic() - 1
    )
    assert found.notes


def test_a_file_that_is_larger_than_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dumped_stacks, "MOST_BYTES", 2**20)
    path = tmp_path / "rank0.txt"
    path.write_text(py_spy(1, BARRIER) + "x" * 100 + "\n" + "noise\n" * 2**20)
    found = read(str(path), path.name, ends=time.monotonic() + 60)
    assert found.notes
    assert [p.pid for p in found.processes] == [1]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("")
    with pytest.raises(BadDump):
        read(str(tmp_path / "empty.txt"), "empty.txt", ends=time.monotonic() + 5)
    with pytest.raises(BadLog):
        read(str(tmp_path / "none.txt"), "none.txt", ends=time.monotonic() + 5)


def test_damage_anywhere_raises_nothing() -> None:
    chance = random.Random(7)
    texts = [path.read_text() for path in sorted(RECORDED.glob("*.[tj]*"))]
    for _ in range(300):
        text = chance.choice(texts)
        for _ in range(chance.randint(1, 8)):
            at, other = chance.randrange(len(text) + 1), chance.choice(texts)
            cut = text[at + chance.randrange(60) :]
            start = chance.randrange(len(other))
            text = text[:at] + chance.choice(["", "\x00", "(" * 50, "9" * 30, other[start : start + 80]]) + cut
        for process in read_text(text).processes:
            json.dumps(dumped(process, "x").stacks.command)
