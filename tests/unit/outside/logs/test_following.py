"""A growing file is read once, however it grows; and who writes it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from jupyter_traindbg.errors import BadLog
from jupyter_traindbg.outside.logs import LogFile, read_text
from jupyter_traindbg.outside.logs import following as grows
from jupyter_traindbg.outside.logs.following import Following
from jupyter_traindbg.outside.logs.writers import writers

ANCHORS = ("out of memory",)


def following(path: Path) -> Following:
    return Following(LogFile(str(path), path.name), anchors=ANCHORS)


def read(log: Following) -> bool:
    return log.more(ends=time.monotonic() + 10)


def append(path: Path, text: str) -> None:
    with path.open("a") as f:
        f.write(text)


def test_a_log_in_pieces_is_the_same_as_the_whole(tmp_path: Path) -> None:
    text = "".join(
        f"2026-01-01 10:00:{n:02d} step:{n} loss: {1 / (n + 1):.3f}\n{'Collecting trajectories...' if n % 9 == 0 else 'x'}\n"
        for n in range(60)
    )
    path = tmp_path / "train.log"
    path.touch()
    log = following(path)
    assert not read(log)
    for start in range(0, len(text), 101):  # in the middle of lines and words
        append(path, text[start : start + 101])
        assert read(log)
        log.evidence()
    whole, pieces = read_text(text, anchors=ANCHORS), log.evidence()
    assert [(x.number, x.text, x.time_s) for x in pieces.lines] == [(x.number, x.text, x.time_s) for x in whole.lines]
    assert pieces.series == whole.series
    assert [(s.name, s.line.number) for s in pieces.stages] == [(s.name, s.line.number) for s in whole.stages]
    assert pieces.total_lines == whole.total_lines == 120


def test_a_line_that_is_half_written_waits_for_its_end(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text("CUDA out of")
    log = following(path)
    assert read(log)
    assert log.evidence().lines == ()
    append(path, " memory\n")
    read(log)
    assert [line.text for line in log.evidence().lines] == ["CUDA out of memory"]


def test_a_line_that_is_never_ended_is_read_after_a_while(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text("Generating train split: 0 examples [00:00, ? examples/s]")
    os.utime(path, (time.time() - 60, time.time() - 60))
    log = following(path)
    read(log)
    assert read(log), "nothing came, but the half line counts now"
    assert not read(log), "once"
    assert [stage.name for stage in log.evidence().stages] == ["data"]
    append(path, " and more\nnext\n")
    read(log)
    assert [(line.number, line.text) for line in log.evidence().lines][-1] == (2, "next")


@pytest.mark.parametrize("how", ["cut", "replaced"])
def test_a_log_that_begins_again_is_read_anew(tmp_path: Path, how: str) -> None:
    path = tmp_path / "train.log"
    path.write_text("the first run\n" * 20)
    log = following(path)
    read(log)
    if how == "replaced":
        path.rename(tmp_path / "train.log.1")
    path.write_text("the second run\n")
    assert read(log)
    assert [line.text for line in log.evidence().lines] == ["the second run"]


def test_stages_that_begin_while_we_follow_have_an_age(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text("update_actor\n")
    log = following(path)
    read(log)
    assert log.arrivals == (), "when that was written nobody knows"
    append(path, "Collecting trajectories...\n")
    read(log)
    ((number, ago_s),) = log.arrivals
    assert number == 2
    assert ago_s >= 0


def test_silence_counts_from_the_last_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, now_s = tmp_path / "train.log", 1_000_500.0
    monkeypatch.setattr(
        grows, "time", SimpleNamespace(time=lambda: now_s, monotonic=time.monotonic, gmtime=time.gmtime)
    )
    path.write_text("a line\n")
    os.utime(path, (1_000_000, 1_000_000))
    log = following(path)
    read(log)
    assert log.silent_s == 500.0
    append(path, "another\n")
    os.utime(path, (1_000_450, 1_000_450))
    read(log)
    assert log.silent_s == 50.0
    assert log.gaps_s[-1] == 450.0
    append(path, "Collecting trajectories...\n")
    read(log)
    now_s += 20
    assert [ago_s for _, ago_s in log.arrivals] == [20.0]


def test_utf_16_grows_too(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    data = "CUDA out of memory\r\nend\r\n".encode("utf-16")
    path.write_bytes(data[:11])
    log = following(path)
    read(log)
    path.write_bytes(data)
    read(log)
    assert [line.text for line in log.evidence().lines] == ["CUDA out of memory", "end"]


def test_a_log_that_is_gone_is_one_clear_line(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    with pytest.raises(BadLog, match=r"train\.log"):
        following(path)
    path.write_text("a\n")
    log = following(path)
    path.unlink()
    with pytest.raises(BadLog, match=r"train\.log"):
        read(log)


# --- writers -------------------------------------------------------------------------------------------------------

WRITES = """
import sys, time
file = open(sys.argv[1], "w") if len(sys.argv) > 1 else sys.stdout
print("here", file=file, flush=True)
time.sleep(60)
"""


def wait_until_written(path: Path) -> None:
    deadline = time.monotonic() + 30
    while not (path.exists() and path.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_who_has_it_open_for_writing(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    with subprocess.Popen([sys.executable, "-c", WRITES, str(path)]) as writer:
        wait_until_written(path)
        with path.open() as reader:
            assert writers(str(path)) == [writer.pid], "who reads it does not count"
            assert reader.read()
        writer.kill()
    assert writers(str(path)) == []


def test_behind_tee_it_is_the_one_at_the_other_end(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    writer = subprocess.Popen([sys.executable, "-c", WRITES], stdout=subprocess.PIPE)
    with writer, subprocess.Popen(["tee", str(path)], stdin=writer.stdout, stdout=subprocess.DEVNULL):
        assert writer.stdout is not None
        writer.stdout.close()
        wait_until_written(path)
        assert writers(str(path)) == [writer.pid]
        writer.kill()
