"""What a bundle holds, whatever is missing, late or hostile; of a machine and of logs, without a job."""

from __future__ import annotations

import gzip
import html.parser
import json
import os
import re
import stat
import struct
import sys
import threading
import time
import types
import zipfile
from pathlib import Path
from typing import Any

import pytest
import render_scenes_ray
from cases import each

from jupyter_traindbg import errors, report
from jupyter_traindbg.cli import main
from jupyter_traindbg.model import Finding, Report
from jupyter_traindbg.report import bundle, issue, running
from jupyter_traindbg.report.asking import text_of, tool
from jupyter_traindbg.report.context import Context, Part, Subject, Unavailable
from jupyter_traindbg.report.parts import configs, gpu, pci
from jupyter_traindbg.report.parts import logs as log_part

CRASH = """step 1 loss=2.31 max_tokens=4096
node1:77:77 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>
Traceback (most recent call last):
  File "/home/me/fit.py", line 8, in <module>
    fit(model)
RuntimeError: CUDA error: out of memory
"""


def contents(path: str | Path) -> dict[str, str]:
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name).decode() for name in archive.namelist()}


@pytest.fixture
def log(tmp_path: Path) -> str:
    path = tmp_path / "crash.log"
    path.write_text(CRASH)
    return str(path)


# --- whole bundles -------------------------------------------------------------------------------------------------


def test_of_this_machine(tmp_path: Path) -> None:
    path = tmp_path / "m.zip"
    made = report.write(path, Subject(), timeout=20)
    files = contents(path)
    assert next(iter(files)) == "index.html"
    assert {"index.html", "issue.md", "report.json", "machine.txt", "packages.txt"} <= set(files)
    assert made.path == str(path)
    assert made.size_bytes == path.stat().st_size
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert {f.name: f.size_bytes for f in made.files} == {n: len(t.encode()) for n, t in files.items()}
    assert "pytest==" in files["packages.txt"]
    parts = {part.name: part for part in made.parts}
    assert not parts["host"].empty
    assert parts["logs"].missing == ("no log was named, and there is no job that writes one",)
    assert "stacks" not in parts, "nobody asked about a job"


def test_of_a_log(tmp_path: Path, log: str) -> None:
    made = report.write(tmp_path / "l.zip", Subject("crash.log"), logs=[log], timeout=20)
    files = contents(made.path)
    assert files["logs/crash.log.last500.txt"].endswith(CRASH)
    assert "RuntimeError: CUDA error" in files["logs/crash.log.errors.txt"]
    assert "       3  Traceback" in files["logs/crash.log.errors.txt"]
    assert files["logs/crash.log.nccl.txt"].count("NCCL INFO") == 1
    assert "max_tokens=4096" in files["logs/crash.log.last500.txt"]
    assert "RuntimeError: CUDA error" in files["issue.md"]
    told = json.loads(files["report.json"])
    assert told["parts"]["logs"]["data"]["logs"][0]["errors"] >= 2
    assert {"made_by", "made_at", "target", "findings", "redacted"} <= set(told)


class Page(html.parser.HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.ids: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_of_a_job_on_ray(tmp_path: Path) -> None:
    """Its workers, and what those that have died left in the session's logs; jobs elsewhere are not asked for any."""
    logs = tmp_path / "session_1" / "logs"
    logs.mkdir(parents=True)
    (logs / "worker-aa-02000000-77.err").write_text("ValueError: no opening book\n")
    (logs / "worker-bb-02000000-78.err").write_text("")
    (logs / "worker-cc-03000000-79.err").write_text("another job's\n")
    (logs / "raylet.err").write_text("Ray's own\n")
    asked = {"ray workers": lambda left_s: render_scenes_ray.collector()}
    subject = Subject("ray:02000000", questions=asked, left_logs=[f"{logs}/worker-*-02000000-*.err"])
    made = report.write(tmp_path / "r.zip", subject, timeout=20)
    files = contents(tmp_path / "r.zip")
    part = next(p for p in made.parts if p.title == "Ray")
    assert "in trouble" in part.summary
    assert "Collector[5]" in files["index.html"]
    assert re.search(r"- .{0,40}Collector.{0,3}5", files["issue.md"]), (
        "whoever is in trouble is named in the issue as well"
    )
    kept = [name for name in files if name.startswith("logs/")]
    assert {name.partition(".err")[0] for name in kept} == {"logs/worker-aa-02000000-77"}
    plain = report.write(
        tmp_path / "p.zip",
        Subject("4711", questions={"steps": lambda left_s: render_scenes_ray.collector()}),
        timeout=20,
    )
    assert "Ray" not in [p.title for p in plain.parts]


def test_the_index_needs_nothing_and_obeys_nobody(tmp_path: Path) -> None:
    hostile = tmp_path / "x<script>.log"
    hostile.write_text(
        '</pre><script>alert(1)</script><img src=x onerror=alert(1)>\x1b[31m{{7*7}} ERROR "x" @somebody `code` #12\n'
    )
    made = report.write(tmp_path / "h.zip", Subject("<b>x</b>"), logs=[str(hostile)], timeout=20)
    files = contents(made.path)
    page = Page(files["index.html"])
    names = {tag for tag, _ in page.tags}
    assert not names & {"script", "img", "iframe", "object", "link", "form", "b"}
    inside = set(files)
    ids = {attributes.get("id") for _, attributes in page.tags}
    for tag, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on") or name in ("src", "srcset", "action")]
        if tag == "a":
            link = attributes["href"] or ""
            assert link in inside or link.removeprefix("#") in ids, link
    assert "49" not in files["index.html"].split("onerror")[1][:40]
    assert [a["lang"] for t, a in page.tags if t == "html"] == ["en"]
    assert all(re.fullmatch(r"[A-Za-z0-9._/+=@-]+", name) for name in files)
    assert "&#64;somebody" in files["issue.md"] or "```" in files["issue.md"]


def test_headings_regions_and_tables_are_marked_for_a_screen_reader(tmp_path: Path, log: str) -> None:
    made = report.write(tmp_path / "a.zip", Subject("crash.log"), logs=[log], timeout=20)
    page = Page(contents(made.path)["index.html"])
    tags = [tag for tag, _ in page.tags]
    assert tags.count("h1") == tags.count("main") == tags.count("nav") == tags.count("header") == 1
    for tag, attributes in page.tags:
        assert tag != "th" or attributes.get("scope") in ("col", "row")
        if attributes.get("role") == "region":
            assert attributes.get("aria-label")
            assert attributes.get("tabindex") == "0", "what scrolls can be reached by the keyboard"


# --- where it is written -------------------------------------------------------------------------------------------


def test_a_bundle_is_not_overwritten_unless_forced(tmp_path: Path) -> None:
    path = tmp_path / "b.zip"
    path.write_text("precious")
    with pytest.raises(errors.UsageError, match=r"exists; .*--force"):
        report.write(path, Subject())
    assert path.read_text() == "precious"
    report.write(path, Subject(), force=True, timeout=20)
    assert zipfile.is_zipfile(path)
    assert os.listdir(tmp_path) == ["b.zip"], "nothing is left beside it"


@pytest.mark.parametrize("where", ["", "no/such/folder/b.zip"])
def test_a_bad_path_is_told_in_one_line_before_anything_is_collected(
    tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(report, "collect", lambda *_: asked.append("parts"))
    with pytest.raises(errors.UsageError) as caught:
        report.write(tmp_path / where, Subject())
    assert "\n" not in str(caught.value)
    assert asked == []


def test_one_that_came_meanwhile_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "b.zip"
    path.write_text("precious")
    with pytest.raises(errors.UsageError, match="exists"):
        bundle.write(str(path), {"a": "b"}, force=False)
    assert path.read_text() == "precious"
    assert os.listdir(tmp_path) == ["b.zip"]


@each("name", ["../../etc/passwd", "/etc/passwd", "logs/\x00\n<x>.txt", "«redacted:token#1».log", "....", "a" * 400])
def test_names_inside_are_harmless(name: str) -> None:
    safe = bundle.safe_name(name, {})
    assert re.fullmatch(r"[A-Za-z0-9._/+=@-]+", safe)
    assert not safe.startswith("/")
    assert ".." not in safe.split("/")
    assert bundle.safe_name(name, {safe: ""}) != safe


# --- parts ---------------------------------------------------------------------------------------------------------


def part(collect: Any, *, after: str = "") -> Any:
    return types.SimpleNamespace(TITLE="Title", ORDER=1, FROM_JOB=False, AFTER=after, collect=collect)


def raising(error: Exception) -> Any:
    def collect(context: Context) -> Part:
        raise error

    return collect


@pytest.mark.timeout(30)
def test_a_part_that_fails_or_hangs_costs_the_others_nothing() -> None:
    released = threading.Event()
    context = Context(Subject(), timeout=0.3, ends=time.monotonic() + 1.0)
    chosen = {
        "good": part(lambda context: Part("fine")),
        "unavailable": part(raising(Unavailable("not here"))),
        "error": part(raising(errors.TargetGone("process 1 has ended"))),
        "refused": part(raising(PermissionError(13, "Permission denied", "/secret"))),
        "bug": part(raising(ZeroDivisionError("oops"))),
        "hangs": part(lambda context: released.wait()),
        "waits": part(lambda context: Part("after it"), after="hangs"),
    }
    try:
        found = {one.name: one for one in running.collect(context, chosen)}
    finally:
        released.set()
    assert list(found) == list(chosen)
    assert found["good"].part == Part("fine")
    assert found["unavailable"].problem == "not here"
    assert found["error"].problem == "process 1 has ended"
    assert found["refused"].problem == "Permission denied: /secret"
    assert found["bug"].problem == "collecting it failed: ZeroDivisionError: oops"
    assert "ZeroDivisionError" in found["bug"].trace
    assert "did not come" in found["hangs"].problem
    assert "waits" in found


def test_every_part_says_what_it_is() -> None:
    found = running.collectors()
    assert len({c.ORDER for c in found.values()}) == len(found)
    for name, collector in found.items():
        assert (sys.modules.get(f"jupyter_traindbg.report.parts.{name}", collector).__doc__ or "").strip()
        assert collector.TITLE
        assert collector.AFTER in ("", *found)


def test_the_end_of_a_log_is_whole_lines_cleaned(tmp_path: Path) -> None:
    path = tmp_path / "long.log"
    with path.open("w") as f:
        f.write("Traceback (most recent call last):\n  first\nValueError: early\n")
        for i in range(30_000):
            f.write(f"\x1b[32mstep {i}\x1b[0m " + "x" * 40 + "\n")
        f.write("10%|#  |\r50%|## |\r100%|###| done\n")
    context = Context(Subject(), logs=(str(path),), timeout=20)
    made = log_part.collect(context)
    last = made.texts["logs/long.log.last500.txt"].splitlines()[1:]
    assert len(last) == 500
    assert last[-1] == "100%|###| done"
    assert last[-2].startswith("step 29999 x")
    wrong = made.texts["logs/long.log.errors.txt"]
    assert "       3  ValueError: early" in wrong
    assert len(wrong.splitlines()) < 30
    assert any(caption.endswith("errors") for caption in made.excerpts), "what went wrong long ago is shown besides"


def test_what_is_in_the_middle_of_a_huge_log_is_left_out_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_part, "HEAD_BYTES", 100_000)
    monkeypatch.setattr(log_part, "TAIL_BYTES", 100_000)
    path = tmp_path / "huge.log"
    path.write_text("early ERROR\n" + "x" * 99 + "\n" * 1 + ("y" * 99 + "\n") * 20_000 + "late ERROR\n")
    made = log_part.collect(Context(Subject(), logs=(str(path),), timeout=20))
    assert {"early ERROR", "late ERROR"} <= {line[10:] for line in made.texts["logs/huge.log.errors.txt"].splitlines()}
    assert any("read in part: the first 1 MiB and the last 100000 bytes of 2 MiB" in words for words in made.missing)


def test_a_pipe_is_no_log_and_a_binary_no_config(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.log")
    with pytest.raises(Unavailable, match="no regular file"):
        log_part.collect(Context(Subject(), logs=(str(tmp_path / "pipe.log"),)))
    (tmp_path / "c.json").write_bytes(b"\x00\x01" * 100)
    (tmp_path / "big.yaml").write_text("a: 1\n" * 100_000)
    (tmp_path / "wide.yaml").write_bytes("lr: 0.1\n".encode("utf-16"))
    names = [str(tmp_path / name) for name in ("c.json", "big.yaml", "wide.yaml", "gone.yaml")]
    made = configs.collect(Context(Subject(), configs=names))
    assert made.texts == {"config/wide.yaml": "lr: 0.1\n"}
    assert [words.rpartition(": ")[2] for words in made.missing if "gone" in words] == ["there is no such file"]
    assert len(made.missing) == 3
    with pytest.raises(OSError, match="No such file"):
        text_of(str(tmp_path / "none"), 10)


def test_a_packed_log_and_one_of_a_windows_shell_are_read_and_a_binary_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(CRASH.encode()))
    (tmp_path / "b.log").write_bytes(CRASH.encode("utf-16"))
    (tmp_path / "c.log").write_bytes(b"\x7fELF\0\0\0")
    (tmp_path / "d.log.gz").write_bytes(b"\x1f\x8bno gzip at all")
    names = [str(tmp_path / name) for name in ("a.log.gz", "b.log", "c.log", "d.log.gz")]
    made = log_part.collect(Context(Subject(), logs=names, timeout=20))
    assert "RuntimeError: CUDA error" in made.texts["logs/a.log.gz.errors.txt"]
    assert made.texts["logs/b.log.last500.txt"].endswith(CRASH)
    assert [words.partition(": ")[2] for words in made.missing] == [
        "it is not text",
        "cut off or damaged: Unknown compression method",
    ]


def test_a_line_of_megabytes_is_cut_between_words(tmp_path: Path) -> None:
    path = tmp_path / "wide.log"
    path.write_text("ERROR " + "abcdefgh " * 300_000 + "\nERROR next\n")
    texts = log_part.collect(Context(Subject(), logs=(str(path),), timeout=20)).texts
    wrong = texts["logs/wide.log.errors.txt"]
    assert texts["logs/wide.log.last500.txt"].splitlines()[-1] == "ERROR next"
    assert wrong.splitlines()[2].endswith(" abcdefgh")
    assert wrong.splitlines()[3] == "       2  ERROR next"


@pytest.mark.timeout(30)
def test_nvidia_smi_is_asked_unless_it_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smi = tmp_path / "nvidia-smi"
    smi.write_text('#!/bin/sh\n[ "$1" = topo ] && exec tail -f /dev/null\necho GPU 0: fine\n')
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(gpu, "tool", lambda words, limit_s: tool(words, 0.2 if "topo" in words else limit_s))
    made = gpu.collect(Context(Subject(), timeout=5))
    assert made.texts["gpu/nvidia-smi.txt"] == "GPU 0: fine\n"
    assert any("`nvidia-smi topo -m` did not end within" in words for words in made.missing)


def test_config_files_are_found_on_command_lines() -> None:
    words = (
        "python",
        "conf/train.py",
        "--config=a.yaml",
        "--deepspeed",
        "ds.json",
        "--config-name",
        "ppo",
        "data=x.parquet",
        "k.toml",
    )
    assert [*configs._files(words)] == [
        "a.yaml",
        "ds.json",
        "conf/config/ppo.yaml",
        "conf/conf/ppo.yaml",
        "conf/ppo.yaml",
        "k.toml",
    ]


@pytest.mark.timeout(30)
def test_a_tool_that_does_not_end_is_given_up() -> None:
    with pytest.raises(Unavailable, match=r"did not end within 0\.2 s"):
        tool(["tail", "-f", "/dev/null"], 0.2)
    with pytest.raises(Unavailable, match="there is no no-such-tool here"):
        tool(["no-such-tool"], 1)
    with pytest.raises(Unavailable, match="status 3: out of order"):
        tool(["sh", "-c", "echo out of order; exit 3"], 5)
    assert tool(["echo", "fine"], 5) == "fine\n"


def test_acs_is_read_from_configuration_space() -> None:
    space = bytearray(4096)
    struct.pack_into("<I", space, 0x100, 0x140 << 20 | 1 << 16 | 0x0001)  # AER, then
    struct.pack_into("<IHH", space, 0x140, 1 << 16 | 0x000D, 0x7F, 0b0001_1101)
    control = pci.acs_control(bytes(space))
    assert control == 0b0001_1101
    assert pci.flags(control) == "SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-"
    assert pci.acs_control(bytes(space[:256])) is None
    struct.pack_into("<I", space, 0x140, 0x100 << 20 | 1)
    assert pci.acs_control(bytes(space)) is None, "a ring ends"


# --- issue.md ------------------------------------------------------------------------------------------------------


def test_many_logs_stay_within_bounds(tmp_path: Path) -> None:
    many = []
    for n in range(20):
        path = tmp_path / f"rank{n}.log"
        path.write_text("".join(f"ERROR {i} `````` {'long ' * 400}\n" for i in range(200)))
        many.append(str(path))
    made = log_part.collect(Context(Subject(), logs=many, timeout=20))
    assert sum(map(len, made.texts.values())) < 2.2 * log_part.ALL_BYTES
    assert "ERROR 0 " in made.texts["logs/rank7-rank7.log.errors.txt"]
    assert "ERROR 199 " in made.texts["logs/rank7-rank7.log.errors.txt"]


def test_the_issue_fits_and_says_what_was_left_out() -> None:
    lines = [f"line {i} `````` {'long ' * 100}" for i in range(60)]
    part = Part("x", excerpts={"a": lines, "b": lines}, issue=["Versions: " + "x" * 5000])
    collected = [running.Collected("logs", f"Logs {n}", part) for n in range(20)]
    made = Report("", 0, "x", (), (), verdict=[Finding("a", "info", "t" * 9000, evidence=["e" * 9000] * 9)] * 30)
    text = issue.text(made, collected, "now", "")
    assert 20_000 < len(text) < 60_000
    assert "it was too long" in text
    assert text.count("```````") % 2 == 0
    assert "### What is wrong" in text[:400]


def test_words_of_a_log_draw_nothing_in_an_issue() -> None:
    assert issue._plain("<img src=x> @team [a](b) `c_d` #1\nnext") == r"\<img src=x\> &#64;team \[a\](b) `c_d` \#1 next"
    assert issue._code("a`b``c") == "```a`b``c```"


# --- the verb ------------------------------------------------------------------------------------------------------


def test_at_a_terminal(
    tmp_path: Path, log: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["report", log, "-o", "a.zip", "--json", "--timeout", "20"]) in (0, 1)
    told = json.loads(capsys.readouterr().out)
    assert told["path"] == str(tmp_path / "a.zip")
    assert main(["report", log, "-o", "a.zip"]) == 2
    assert "exists" in capsys.readouterr().err
    assert main(["report", str(tmp_path / "none.log"), "-o", "b.zip"]) == 3
    assert capsys.readouterr().err.count("\n") == 1
    assert main(["report", "1", "2"]) == 2
    assert not (tmp_path / "b.zip").exists()


def test_a_job_that_is_gone_is_reported_with_what_is_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "gone.zip"
    assert main(["report", "torchrun:4194303", "-o", str(path), "--timeout", "20"]) == 0
    assert "no process 4194303" in " ".join(capsys.readouterr().out.split())
    files = contents(path)
    assert "no process 4194303" in files["index.html"]
    assert "no process 4194303" in files["issue.md"]
    assert json.loads(files["report.json"])["parts"]["stacks"]["not_available"]
