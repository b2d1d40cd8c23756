"""Exceptions, their frames and chains, in the forms in which they are printed."""

from __future__ import annotations

import traceback

from jupyter_traindbg.model import LogError
from jupyter_traindbg.outside.logs import read_text


def errors(text: str) -> list[LogError]:
    return list(read_text(text, anchors=("never there",)).errors)


def only(text: str) -> LogError:
    found = errors(text)
    assert len(found) == 1, found
    return found[0]


def raised() -> str:
    def inner() -> None:
        raise ValueError("two\nlines")

    try:
        try:
            inner()
        except ValueError as e:
            raise RuntimeError("outer") from e
    except RuntimeError:
        return traceback.format_exc()


def test_a_chain_as_python_prints_it() -> None:
    error = only("before\n" + raised() + "INFO after\n")
    assert (error.type, error.message, error.link) == ("RuntimeError", "outer", "cause")
    assert error.inner is not None
    assert (error.inner.type, error.inner.message) == ("ValueError", "two\nlines")
    assert [f.function for f in error.inner.frames] == ["raised", "inner"]
    assert error.inner.frames[-1].code == 'raise ValueError("two\\nlines")'
    assert error.inner.line.number == 2
    assert error.last_number == len(("before\n" + raised()).splitlines())


def test_while_handling_is_a_context() -> None:
    text = (
        'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    x\nKeyError: 1\n\n'
        "During handling of the above exception, another exception occurred:\n\n"
        'Traceback (most recent call last):\n  File "b.py", line 2, in g\n    y\nmy.pkg.Broken: no\n'
    )
    error = only(text)
    assert (error.type, error.link) == ("my.pkg.Broken", "context")
    assert error.inner is not None
    assert error.inner.type == "KeyError"


def test_two_ranks_mixed_line_by_line_are_two_errors() -> None:
    one = ["Traceback (most recent call last):", '  File "a.py", line 1, in f', "    x", "ValueError: one"]
    two = ["Traceback (most recent call last):", '  File "b.py", line 2, in g', "    y", "TypeError: two"]
    text = "\n".join(line for a, b in zip(one, two, strict=True) for line in (f"[rank0]: {a}", f"[rank1]: {b}"))
    first, second = errors(text)
    assert (first.type, first.frames[0].file, first.line.rank) == ("ValueError", "a.py", 0)
    assert (second.type, second.frames[0].file, second.line.rank) == ("TypeError", "b.py", 1)


def test_what_ray_prints_of_another_process_is_within() -> None:
    text = (
        'Traceback (most recent call last):\n  File "main.py", line 5, in <module>\n    ray.get(x)\n'
        "ray.exceptions.RayTaskError(KeyError): ray::Worker.update() (pid=321, ip=10.0.0.5, actor_id=ab)\n"
        '  File "/home/u/worker.py", line 30, in update\n    d[1]\nKeyError: 1\n'
    )
    error = only(text)
    assert error.type == "ray.exceptions.RayTaskError(KeyError)"
    assert error.inner is not None
    assert (error.inner.type, error.inner.message, error.link) == ("KeyError", "1", "remote")
    assert error.inner.frames[0].file == "/home/u/worker.py"
    assert error.inner.line.who == "Worker.update() pid 321 on 10.0.0.5"


def test_a_worker_of_a_loader_is_quoted() -> None:
    text = (
        'Traceback (most recent call last):\n  File "t.py", line 1, in <module>\n    next(it)\n'
        "RuntimeError: Caught KeyError in DataLoader worker process 1.\nOriginal Traceback (most recent call last):\n"
        '  File "data.py", line 9, in __getitem__\n    d[k]\nKeyError: 5\n'
    )
    error = only(text)
    assert (error.type, error.link) == ("RuntimeError", "remote")
    assert error.inner is not None
    assert (error.inner.type, error.inner.frames[0].file) == ("KeyError", "data.py")


def test_a_process_of_spawn_is_quoted_with_its_rank() -> None:
    text = (
        'Traceback (most recent call last):\n  File "t.py", line 1, in <module>\n    spawn(f)\n'
        "torch.multiprocessing.spawn.ProcessRaisedException: \n\n-- Process 2 terminated with the following error:\n"
        'Traceback (most recent call last):\n  File "t.py", line 9, in work\n    g()\nValueError: bad\n'
    )
    error = only(text)
    assert error.inner is not None
    assert (error.inner.type, error.inner.line.rank) == ("ValueError", 2)


def test_a_logger_that_puts_its_head_before_every_line() -> None:
    head = "(EngineCore_0 pid=7) ERROR 03-04 08:10:{:02d} [core.py:700] "
    lines = [
        "Traceback (most recent call last):",
        '  File "core.py", line 3, in run',
        "    go()",
        "ValueError: no room",
    ]
    error = only("\n".join(head.format(i) + line for i, line in enumerate(lines)))
    assert (error.type, error.message) == ("ValueError", "no room")
    assert [(f.file, f.line, f.code) for f in error.frames] == [("core.py", 3, "go()")]
    assert error.line.who == "EngineCore_0 pid 7"


def test_half_a_traceback_and_a_bare_line() -> None:
    half = only('  File "/x/a.py", line 5, in f\n    loss.backward()\ntorch.OutOfMemoryError: CUDA out of memory.\n')
    assert (half.type, half.frames[0].code) == ("torch.OutOfMemoryError", "loss.backward()")
    bare = only("    ✓ expected RuntimeError: Error(s) in loading\n      size mismatch for a\n")
    assert (bare.type, bare.frames) == ("RuntimeError", ())
    assert bare.message == "Error(s) in loading\n      size mismatch for a"
    cut = only('Traceback (most recent call last):\n  File "a.py", line 1, in f\n    x\n')
    assert (cut.type, cut.frames[0].line) == ("", 1)


def test_a_notebooks_traceback() -> None:
    text = (
        "---------------------------------------------------------------------------\n"
        "ValueError                                Traceback (most recent call last)\n"
        "Cell In[3], line 2\n      1 x = 1\n----> 2 train(x)\n\n"
        "File /home/u/lib.py:10, in train(x)\n      9 def train(x):\n---> 10     raise ValueError(x)\n\n"
        "ValueError: 1\n"
    )
    error = only(text)
    assert error.type == "ValueError"
    assert [(f.file, f.line, f.code) for f in error.frames] == [
        ("Cell In[3]", 2, "train(x)"),
        ("/home/u/lib.py", 10, "raise ValueError(x)"),
    ]


def test_richs_traceback() -> None:
    text = (
        "╭───────────── Traceback (most recent call last) ─────────────╮\n"
        "│ /home/u/train.py:12 in main                                 │\n"
        "│   11 │                                                      │\n"
        "│ ❱ 12 │   fit()                                              │\n"
        "╰─────────────────────────────────────────────────────────────╯\n"
        "ValueError: bad\n"
    )
    error = only(text)
    assert (error.type, error.message) == ("ValueError", "bad")
    assert [(f.file, f.line, f.function, f.code) for f in error.frames] == [("/home/u/train.py", 12, "main", "fit()")]


def test_last_words_of_faulthandler_and_of_cpp() -> None:
    fatal = only(
        "Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f (most recent call first):\n"
        '  File "a.py", line 3 in inner\n  File "b.py", line 9 in outer\n'
    )
    assert (fatal.type, fatal.message) == ("Fatal Python error", "Segmentation fault")
    assert [f.function for f in fatal.frames] == ["outer", "inner"]
    cpp = only("terminate called after throwing an instance of 'c10::Error'\n  what():  CUDA error: no\nmore words\n")
    assert (cpp.type, cpp.message) == ("c10::Error", "CUDA error: no\nmore words")


def test_a_frame_that_a_terminal_wrapped() -> None:
    error = only('Traceback (most recent call last):\n  File "/a/long/path.py",\nline 33, in f\n    x\nValueError: w\n')
    assert [(f.file, f.line) for f in error.frames] == [("/a/long/path.py", 33)]


def test_warnings_and_words_are_no_errors() -> None:
    assert errors("UserWarning: slow\nERROR: FG=0, BG=0\nall errors: 3\nno Error here\n2 errors found\n") == []


def test_hostile_text_ends_soon() -> None:
    errors("File " * 5000 + '"' + " " * 20000 + "\n" + "Traceback (most recent call last):\n" * 300 + "(" * 5000)


def test_what_a_rank_prints_between_the_lines_of_its_own_traceback() -> None:
    """torchrun's --tee reads standard output and standard error apart, so that one comes into the other."""
    error = only(
        "[default0]:[rank0]: Traceback (most recent call last):\n"
        '[default0]:[rank0]:   File "/job/fit.py", line 72, in <module>\n'
        "[default0]:[rank0]:     main()\n"
        "[default0]:step 4 loss 0.2042\n"
        "[default0]:step 5 loss 0.1654\n"
        '[default0]:[rank0]:   File "/job/fit.py", line 61, in main\n'
        "[default0]:[rank0]:     loss.backward()\n"
        "[default0]:step 6 loss 0.1402\n"
        "[default0]:[rank0]: RuntimeError: it broke\n"
    )
    assert (error.type, error.message) == ("RuntimeError", "it broke")
    assert [f.function for f in error.frames] == ["<module>", "main"]


def test_a_traceback_that_is_cut_off_takes_nothing_of_the_next_one() -> None:
    first, second = errors(
        'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    x\nstep 4 loss 0.2\n'
        'Traceback (most recent call last):\n  File "b.py", line 2, in g\n    y\nValueError: w\n'
    )
    assert (first.type, [f.file for f in first.frames]) == ("", ["a.py"])
    assert (second.type, [f.file for f in second.frames]) == ("ValueError", ["b.py"])
