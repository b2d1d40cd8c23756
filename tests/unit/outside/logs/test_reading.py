"""Files as they are found: any encoding, compressed, damaged, endless, not there, not text."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import json
import lzma
import math
import os
import threading
import time
from pathlib import Path

import pytest
from cases import each

from jupyter_traindbg.errors import BadLog
from jupyter_traindbg.model import LogEvidence
from jupyter_traindbg.outside import logs
from jupyter_traindbg.outside.logs import opening

WORDS = "[rank1]: ValueError: zu groß, 太大\nsecond line\n"


def read(target: Path | str, timeout: float = 20.0) -> LogEvidence:
    return logs.read(logs.find(str(target)), anchors=("never there",), timeout=timeout)


def file(place: Path, data: bytes, name: str = "a.log") -> Path:
    path = place / name
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "gb18030"])
def test_any_encoding(tmp_path: Path, encoding: str) -> None:
    seen = read(file(tmp_path, WORDS.encode(encoding)))
    assert [line.text for line in seen.lines] == ["ValueError: zu groß, 太大", "second line"]
    assert seen.errors[0].line.rank == 1


def test_bytes_of_no_encoding_do_not_hide_the_rest(tmp_path: Path) -> None:
    seen = read(file(tmp_path, b"good\n\xff\xfe\xfa bad \x80\nValueError: after\n"))
    assert len(seen.lines) == 3
    assert seen.errors[0].message == "after"


def test_a_large_log_in_utf_16(tmp_path: Path) -> None:
    seen = read(file(tmp_path, ("a line of words\n" * 200_000 + WORDS).encode("utf-16")))
    assert seen.total_lines == 200_002
    assert seen.errors[0].line.number == 200_001


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_compressed(tmp_path: Path, pack: object) -> None:
    assert callable(pack)
    seen = read(file(tmp_path, pack(WORDS.encode()), "a.log.gz"))
    assert [line.text for line in seen.lines][1] == "second line"


def test_a_compressed_one_that_is_cut_off_gives_what_is_there(tmp_path: Path) -> None:
    text = "".join(f"line {i} {os.urandom(8).hex()}\n" for i in range(20_000))
    data = gzip.compress(text.encode())
    seen = read(file(tmp_path, data[: len(data) // 2], "a.log.gz"))
    assert "cut off" in seen.sources[0].note
    assert seen.total_lines > 100


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_the_last_lines_before_a_cut_are_not_lost(tmp_path: Path, pack: object) -> None:
    """They tell why it ended; and a short one is no empty one."""
    assert callable(pack)
    data = pack(WORDS.encode() + b"".join(os.urandom(8).hex().encode() + b"\n" for _ in range(50)))
    seen = read(file(tmp_path, data[:-12], "a.log.gz"))
    assert "cut off or damaged" in seen.sources[0].note
    assert seen.errors[0].message.startswith("zu gro")


def test_lines_that_end_as_in_windows_are_no_progress_bars(tmp_path: Path) -> None:
    trace = 'Traceback (most recent call last):\n  File "/j/fit.py", line 4, in <module>\n    go()\n'
    trace += '  File "/j/fit.py", line 9, in go\n    1 / 0\n'
    text = "step 1 loss 2.0\n" * 3 + trace + "ZeroDivisionError: division by zero\n"
    for end in ("\n", "\r\n", "\r\r\n"):
        (error,) = read(file(tmp_path, text.replace("\n", end).encode())).errors
        assert [(f.line, f.function) for f in error.frames] == [(4, "<module>"), (9, "go")]
        assert error.line.number == 4


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is empty"),
        (b"\n \n\t\n", "says nothing: it has blank lines only"),
        (b"\x1f\x8bnot packed", r"gave nothing \(cut off or damaged"),
        (b"\x00" * 4096, "is not text"),
        (b"\x7fELF" + bytes(range(256)) * 10, "is not text"),
        (b"PK\x03\x04" + bytes(range(256)) * 10, "is not text"),
        (bytes(range(256)) * 40, "is not text"),
        (b"\x28\xb5\x2f\xfd" + b"x" * 100, "zstd"),
    ],
)
def test_what_is_no_log_is_said_in_one_line(tmp_path: Path, data: bytes, said: str) -> None:
    with pytest.raises(BadLog, match=said) as e:
        read(file(tmp_path, data))
    assert "\n" not in str(e.value)
    assert e.value.next_step


def test_what_is_not_there_or_may_not_be_read(tmp_path: Path) -> None:
    with pytest.raises(BadLog, match="no file"):
        read(tmp_path / "none.log")
    with pytest.raises(BadLog, match="without logs"):
        read(tmp_path)
    with pytest.raises(BadLog, match="matches no file"):
        read(tmp_path / "*.log")
    with pytest.raises(BadLog, match="no file"):
        read("/dev/null")
    dangling = tmp_path / "dangling.log"
    dangling.symlink_to(tmp_path / "nowhere")
    with pytest.raises(BadLog, match="cannot read dangling"):
        read(dangling)


def test_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = file(tmp_path, b"x")

    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(opening.os, "open", refuse)  # root may read everything
    with pytest.raises(BadLog, match=r"cannot read a\.log: Permission denied; ask its owner"):
        read(path)


def test_a_file_with_nuls_at_its_end_is_a_log(tmp_path: Path) -> None:
    """A file that was truncated while it was written, or whose machine went down."""
    seen = read(file(tmp_path, WORDS.encode() * 100 + b"\x00" * 3000))
    assert len(seen.errors) == 100


def test_a_hole_before_the_text_is_passed_over(tmp_path: Path) -> None:
    """``copytruncate`` of a log whose writer does not append leaves one."""
    assert len(read(file(tmp_path, b"\x00" * 3_000_000 + WORDS.encode() * 100)).errors) == 100


def test_one_bad_file_of_several_is_a_note(tmp_path: Path) -> None:
    file(tmp_path, WORDS.encode(), "a.log")
    file(tmp_path, bytes(range(256)) * 40, "b.log")
    seen = read(tmp_path)
    assert len(seen.sources) == 2
    assert "not text" in seen.sources[1].note
    assert len(seen.errors) == 1


def test_many_large_files_share_the_time(tmp_path: Path) -> None:
    for i in range(4):
        file(tmp_path, b"an uninteresting line\n" * 200_000 + b"ValueError: the end\n", f"rank{i}.log")
    seen = read(tmp_path, timeout=0.0)
    assert [e.message for e in seen.errors] == ["the end"] * 4


@pytest.mark.timeout(30)
def test_a_pipe_that_nobody_closes_ends_at_the_deadline(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = os.open(path, os.O_RDWR)
    try:
        os.write(writer, WORDS.encode())
        seen = read(path, timeout=0.3)
        assert "in part" in seen.sources[0].note
        assert len(seen.lines) == 2
    finally:
        os.close(writer)


def test_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    text = (WORDS * 30_000).encode()

    def write() -> None:
        with path.open("wb") as f:  # waits for the reader
            f.write(text)

    writing = threading.Thread(target=write)
    writing.start()
    try:
        assert read(path).total_bytes == len(text)
    finally:
        writing.join(10)


def test_when_the_time_is_up_the_end_is_still_read(tmp_path: Path) -> None:
    text = "an uninteresting line\n" * 100_000 + "ValueError: the end\n"
    opened = opening.open_log(str(file(tmp_path, text.encode())), "a.log", ends=time.monotonic(), end_bytes=1000)
    try:
        read_of_it = b"".join(opened.blocks())
    finally:
        opened.close()
    assert read_of_it.endswith(b"line\nValueError: the end\n")
    assert len(read_of_it) < len(text) / 2
    assert "read in part: the first 65536 bytes and the last 1000 bytes of 2 MiB" in opened.note


def test_of_a_long_log_its_beginning_and_its_end_are_enough(tmp_path: Path) -> None:
    text = "first\n" + "a secret of many words\n" * 200_000 + "last\n"
    log = file(tmp_path, text.encode())
    with contextlib.closing(opening.open_log(str(log), "a.log", ends=math.inf, only=(2000, 2000))) as opened:
        lines = b"".join(opened.blocks()).splitlines()
    assert (lines[0], lines[-1]) == (b"first", b"last")
    assert set(lines[1:-1]) == {b"a secret of many words", b""}, "none is torn"
    assert len(lines) < 100_000
    with contextlib.closing(opening.open_log(str(log), "a.log", ends=math.inf, only=(2000, 10**7))) as opened:
        assert b"".join(opened.blocks()) == text.encode()
        assert opened.note == ""


@each("end", [b"\n", b"\r", b"\r\n"])
def test_of_a_line_that_a_gap_cuts_through_nothing_is_read_however_long_it_is(tmp_path: Path, end: bytes) -> None:
    log = file(tmp_path, b"first\n" * 20_000 + b"s3cret" * 800_000 + end + b"last\n")
    with contextlib.closing(opening.open_log(str(log), "a.log", ends=math.inf, only=(2000, 3_000_000))) as opened:
        lines = b"".join(opened.blocks()).splitlines()
    assert set(lines) == {b"first", b"last", b""}


def test_a_notebook_is_what_its_cells_printed(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": "ValueError: not printed"},
        {"cell_type": "code", "outputs": [{"output_type": "stream", "text": ["one\n", "two\n"]}]},
        {
            "cell_type": "code",
            "outputs": [
                {
                    "output_type": "error",
                    "ename": "KeyError",
                    "evalue": "3",
                    "traceback": [
                        "\x1b[0;31m---------------------------------------------------------------------------\x1b[0m",
                        "\x1b[0;31mKeyError\x1b[0m                                  Traceback (most recent call last)",
                        "Cell \x1b[0;32mIn[4], line 1\x1b[0m\n\x1b[0;32m----> 1\x1b[0m d[3]\n",
                        "\x1b[0;31mKeyError\x1b[0m: 3",
                    ],
                }
            ],
        },
    ]
    seen = read(file(tmp_path, json.dumps({"cells": cells}).encode(), "n.ipynb"))
    (error,) = seen.errors
    assert (error.type, error.message, error.frames[0].code) == ("KeyError", "3", "d[3]")
    assert seen.lines[0].text == "one"
    assert seen.launchers == ("notebook",)
    assert "cells" in seen.sources[0].note
    with pytest.raises(BadLog, match="notebook"):
        read(file(tmp_path, b'{"cells": 3}', "bad.ipynb"))


def test_a_notebook_that_printed_nothing_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadLog, match="no cell has any output"):
        read(file(tmp_path, b'{"cells": [{"outputs": []}]}', "a.ipynb"))


def test_the_text_of_a_log() -> None:
    assert logs.read_text(WORDS, anchors=()).errors[0].line.rank == 1
    with pytest.raises(BadLog, match="empty"):
        logs.read_text(" \n", anchors=())
