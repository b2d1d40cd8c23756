"""Which locks a line of source takes and which it stands inside of, as written; nothing is run."""

from __future__ import annotations

import os
import textwrap
import time
from pathlib import Path

import pytest
from cases import each

from jupyter_traindbg.model import Frame, ProcessStacks, Thread
from jupyter_traindbg.outside import sources

SOURCE = textwrap.dedent(
    """\
    class Metrics:
        def log(self, row):
            with self.lock:
                self.rows.append(row)
            done()

        def upload(self):
            with self.lock, connect(self.server) as link:
                link.send(1)
                def later():
                    link.close()

        def by_hand(self):
            self.mutex.acquire()
            try:
                work()
            finally:
                self.mutex.release()
            after()

    def nested():
        with a:
            with b:
                work()
    """
)
LINES = {n: line.strip() for n, line in enumerate(SOURCE.splitlines(), 1)}


def at(text: str, nth: int = 0) -> int:
    return [n for n, line in LINES.items() if line == text][nth]


@each(
    ("text", "takes", "within"),
    [
        ("with self.lock:", ["self.lock"], []),
        ("self.rows.append(row)", [], ["self.lock"]),
        ("done()", [], []),
        ("link.send(1)", [], ["self.lock", "connect(self.server)"]),
        ("link.close()", [], []),  # a function of its own, which may run when the lock is free again
        ("self.mutex.acquire()", ["self.mutex"], []),
        ("work()", [], ["self.mutex"]),
        ("after()", [], []),
        ("with b:", ["b"], ["a"]),
    ],
)
def test_what_a_line_takes_and_stands_in(text: str, takes: list[str], within: list[str]) -> None:
    (found,) = sources.source_lines(SOURCE, [at(text)]).values()
    assert (found.text, list(found.takes), list(found.within)) == (text, takes, within)


def test_inner_blocks_come_last() -> None:
    line = at("work()", 1)
    assert list(sources.source_lines(SOURCE, [line])[line].within) == ["a", "b"]


@pytest.mark.parametrize("text", ["not python at all (\nwith x:", "x = '\0'\n", "(" * 5000])
def test_a_text_that_cannot_be_parsed_gives_its_words(text: str) -> None:
    found = sources.source_lines(text, [1, 99, 0])
    assert list(found) == [1]
    assert (found[1].takes, found[1].within) == ((), ())
    assert len(found[1].text) <= sources.LONGEST


def stack(file: str, *, library: bool = False) -> ProcessStacks:
    frames = (Frame(file, 1, "f", library),)
    return ProcessStacks(0, os.getpid(), "rank", "agent", (Thread("MainThread", 1, "waiting", frames),))


def test_lines_of_the_users_files_are_read_unless_they_are_newer_than_the_process(tmp_path: Path) -> None:
    old, new, library = (tmp_path / name for name in ("old.py", "new.py", "library.py"))
    for file in (old, new, library):
        file.write_text("with lock:\n    pass\n")
    before = time.time() - 30 * 86400
    os.utime(old, (before, before))
    os.utime(library, (before, before))
    found = sources.read(
        [
            stack(str(old)),
            stack(str(new)),
            stack(str(library), library=True),
            stack("/nowhere/x.py"),
            stack("<stdin>"),
            stack("/torn\0\0"),
        ]
    )
    assert list(found) == [f"{old}:1"]
    assert list(found[f"{old}:1"].takes) == ["lock"]


def test_a_script_by_its_name_alone_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``python train.py`` before Python 3.9: frames name the file as it was given."""
    script = tmp_path / "train.py"
    script.write_text("with lock:\n    pass\n")
    before = time.time() - 30 * 86400
    os.utime(script, (before, before))
    monkeypatch.chdir(tmp_path)
    found = sources.read([stack("train.py"), stack("gone.py")])
    assert list(found) == ["train.py:1"]


def test_a_parse_that_another_thread_disturbed_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    parse, tries = sources.ast.parse, iter([SystemError("AST constructor recursion depth mismatch")])

    def disturbed(text: str) -> object:
        for error in tries:
            raise error
        return parse(text)

    monkeypatch.setattr(sources.ast, "parse", disturbed)
    (found,) = sources.source_lines("lock.acquire()\n", [1]).values()
    assert found.takes == ("lock",)


def test_the_lines_around_the_one_that_is_meant() -> None:
    rows = [f"    {'    ' * (n == 5)}line {n}" for n in range(1, 11)]
    found = sources.excerpt(rows, 5, "train.py")
    assert (found.file, found.line, found.first) == ("train.py", 5, 2)
    assert found.lines == ("line 2", "line 3", "line 4", "    line 5", "line 6", "line 7", "line 8")
    assert sources.excerpt(rows, 1, "train.py").lines == ("line 1", "line 2", "line 3", "line 4")
    assert sources.excerpt(rows, 10, "train.py").first == 7


def test_blank_lines_at_the_ends_and_long_ones_are_cut_and_tabs_are_four_wide() -> None:
    found = sources.excerpt(["", "\tif x:", "", "\t\t" + "y" * 1000, "", "  "], 4, "t.py")
    assert found.first == 2
    assert [len(line) for line in found.lines] == [5, 0, sources.LONGEST]
    assert found.lines[2].startswith("    yy")


def test_whoever_can_read_what_no_disk_has_is_asked() -> None:
    asked: list[tuple[int, str]] = []

    def cell(process: ProcessStacks, file: str) -> str | None:
        asked.append((process.pid, file))
        return "with lock:\n    pass\n" if "12" in file else None

    found = sources.read([stack("/tmp/ipykernel_7/12.py"), stack("/tmp/ipykernel_7/13.py")], cell)
    assert list(found) == ["/tmp/ipykernel_7/12.py:1"]
    excerpt = found["/tmp/ipykernel_7/12.py:1"].excerpt
    assert excerpt is not None
    assert excerpt.lines == ("with lock:", "    pass")
    assert asked == [(os.getpid(), "/tmp/ipykernel_7/12.py"), (os.getpid(), "/tmp/ipykernel_7/13.py")]


def test_what_a_traceback_quotes_is_shown_where_the_file_still_says_so(tmp_path: Path) -> None:
    script, pipe = tmp_path / "train.py", tmp_path / "pipe"
    script.write_text("def step():\n    loss = f(x)\n    return loss\n")
    os.mkfifo(pipe)
    quoted = [
        (str(script), 2, "loss = f(x)"),
        (str(script), 3, "loss = f(x)"),
        (str(script), 9, "x"),
        (str(script), 1, ""),
    ]
    found = sources.as_printed(
        [*quoted, (str(pipe), 1, "x"), ("/nowhere/a.py", 1, "x"), ("nul\0", 1, "x"), (str(tmp_path), 1, "x")]
    )
    assert list(found) == [f"{script}:2"]
    excerpt = found[f"{script}:2"].excerpt
    assert excerpt is not None
    assert excerpt.lines == ("def step():", "    loss = f(x)", "    return loss")
