"""What a report makes of the machines of a job: one row each, in what they differ, each file once, and no secret of any of them."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from cases import each

from jupyter_traindbg import report
from jupyter_traindbg.hosts import wire
from jupyter_traindbg.model import GpuReport, HostFacts, NotAvailable, Result
from jupyter_traindbg.render.blocks import Table, spans
from jupyter_traindbg.report import Collected, Hosts, OnHost, Subject, comparing, of_machine
from jupyter_traindbg.report.context import Context, Part, Unavailable
from jupyter_traindbg.report.parts import hosts as hosts_part
from jupyter_traindbg.report.parts import logs as log_part
from jupyter_traindbg.spread import part as spread_part

GIB = 2**30
SECRET = "Quite-Private-4711"


def machine(name: str, ranks: Sequence[int], *, torch: str = "2.9.0", **variables: str) -> OnHost:
    """A host as its ranks tell of it."""
    nothing = NotAvailable("nobody looked")
    facts = HostFacts(name, 64, 8, 400 * GIB, 512 * GIB, 0, nothing, nothing, {}, {"nofile": 1024}, {})
    host = {
        "host": facts,
        "system": "Linux 6.8.0 x86_64",
        "release": "Debian 12",
        "cpu": "EPYC",
        "load": "3.20 3 3",
        "kernel": {},
    }
    packages = {"torch": torch, "numpy": "2.1.0"}
    versions = {"Python": "3.12", "torch": torch}
    shared = {"NCCL_DEBUG": "INFO", "GROUP_RANK": str(ranks[0] if ranks else 0), **variables}
    listed = "".join(f"{n}=={v}\n" for n, v in packages.items())
    return OnHost(
        name,
        ranks,
        [
            _collected("host", "", {"machine.txt": f"{name} is up\n"}, host, issue=["System: Linux 6.8.0"]),
            _collected("versions", "", {"packages.txt": listed}, {"versions": versions, "packages": packages}),
            _collected("environment", "", {}, {"variables": shared}, learn={n: [v] for n, v in variables.items()}),
            Collected("gpu", "GPUs and driver", None, "there is no nvidia-smi here"),
        ],
    )


def _collected(name: str, summary: str, texts: Mapping[str, str], data: Mapping[str, Any], **more: Any) -> Collected:
    return Collected(name, name.capitalize(), Part(summary, texts=texts, data=data, **more))


def told(*hosts: OnHost) -> Part:
    return hosts_part.collect(Context(_subject(*hosts)))


def _subject(*hosts: OnHost) -> Subject:
    return Subject("ssh:a,b", questions={"hosts": lambda left_s: Hosts(hosts)})


def written(path: Path, *hosts: OnHost) -> dict[str, str]:
    """A whole bundle about them, by file."""
    report.write(path, _subject(*hosts), timeout=20)
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


# --- what differs --------------------------------------------------------------------------------------------------


def test_what_differs_is_said_with_the_hosts_that_have_it() -> None:
    many = [machine(f"node{n:03d}", [n]) for n in range(1, 100)]
    odd = machine("node100", [100], torch="2.8.1", NCCL_ALGO="Tree")
    part = told(*many, odd)
    assert part.summary == "100 hosts with 100 ranks, they differ in torch, NCCL_ALGO"
    differ = {one.what: one.values for one in part.data["differences"]}
    assert list(differ) == ["torch", "NCCL_ALGO"], "the number of a node is its own; torch is told once"
    assert [(value, len(names)) for value, names in differ["NCCL_ALGO"]] == [("", 99), ("Tree", 1)]
    assert "Differs: torch: 2.8.1 on node100; 2.9.0 on the 99 others" in part.issue
    assert part.issue[0] == "System: Linux 6.8.0"


def test_of_hosts_that_are_alike_that_is_said_and_of_one_nothing() -> None:
    both = told(machine("a", [0]), machine("b", [1]))
    assert both.summary == "2 hosts with 2 ranks, alike in all that was compared"
    assert told(machine("a", [0])).summary == "1 host with 1 rank"


def test_a_host_of_which_something_could_not_be_had_is_not_called_different_in_it() -> None:
    half = machine("b", [1])
    half = dataclasses.replace(half, parts=[c for c in half.parts if c.name not in ("versions", "host")])
    assert told(machine("a", [0]), half).data["differences"] == []


def test_a_host_that_gives_no_answer_is_named_with_its_ranks_and_the_reason() -> None:
    part = told(
        machine("a", [0, 1]), OnHost("b", [2, 3], (), "b did not answer in 12.0 s"), OnHost("c", (), (), "no route")
    )
    assert part.missing[:2] == ["b (ranks 2, 3): b did not answer in 12.0 s", "c: no route"]
    assert "2 gave no answer" in part.summary
    with pytest.raises(Unavailable, match=r"b \(rank 1\): it is gone"):
        told(OnHost("b", [1], (), "it is gone"))


def test_what_many_hosts_lack_is_said_once() -> None:
    part = told(*(machine(f"n{n:02d}", [n]) for n in range(100)))
    assert part.missing == ["all hosts: GPUs and driver: there is no nvidia-smi here"]


@each(
    ("hosts", "words"),
    [
        (["a", "b"], "a, b"),
        ([*(f"n{n:02d}" for n in range(1, 9)), "n11"], "n[01-08], n11"),
        (["a", "c", "e", "g", "i", "k"], "a, c, e, g ... (6 hosts)"),
    ],
)
def test_many_hosts_in_few_words(hosts: list[str], words: str) -> None:
    assert comparing.named(hosts) == words
    assert comparing.named(hosts, hosts) == "all hosts"


def test_the_one_of_many_that_stands_out_comes_first() -> None:
    part = told(*(machine(f"n{n:02d}", [n], torch="2.8.1" if n == 70 else "2.9.0") for n in range(100)))
    table = next(block for block in hosts_part.draw(part.data) if getattr(block, "caption", "") == "Host by host")
    assert isinstance(table, Table)
    first = [spans(cell)[0].text for cell in table.rows[0]]
    assert (first[0], first[-1]) == ("n70", "2.8.1")
    assert spans(table.rows[0][-1])[0].tone == "warn"
    assert len(table.rows) == 100


@each(
    ("values", "words"),
    [
        ([("1", ["a"]), ("2", ["b"])], [("1", "a"), ("2", "b")]),
        ([("1", ["a", "b", "c"]), ("2", ["d"]), ("3", ["e"])], [("3", "e"), ("2", "d"), ("1", "the 3 others")]),
        ([("1", ["a", "b"]), ("2", ["c", "d"])], [("1", "a, b"), ("2", "c, d")]),
    ],
)
def test_a_difference_in_words(values: list[tuple[str, list[str]]], words: list[tuple[str, str]]) -> None:
    assert comparing.told(comparing.Difference("x", values)) == words


# --- files ---------------------------------------------------------------------------------------------------------


def test_a_text_that_several_hosts_have_is_there_once_and_the_index_says_so(tmp_path: Path) -> None:
    files = written(tmp_path / "a.zip", machine("a", [0]), machine("b", [1]), machine("c", [2], torch="2.8.1"))
    inside = sorted(name for name in files if name.startswith("hosts/"))
    assert inside == [
        *(f"hosts/{host}/machine.txt" for host in "a"), "hosts/a/packages.txt",
        "hosts/b/machine.txt", "hosts/c/machine.txt", "hosts/c/packages.txt",
    ]  # fmt: skip
    index = " ".join(re.sub(r"<[^>]+>", "", files["index.html"]).split())
    assert "packages.txt (the same on a, b)" in index
    assert "The hosts differ in 1 thing" in index
    assert "Linux 6.8.0" in files["issue.md"]
    parts = json.loads(files["report.json"])["parts"]
    assert [one["host"] for one in parts["hosts"]["data"]["read"]] == ["a", "b", "c"]
    assert parts["hosts"]["data"]["read"][1]["parts"]["versions"]["same_as"] == "a"
    assert not {"host", "commands", "versions", "pci", "kernel_log", "logs"} & parts.keys(), (
        "of a machine where no rank runs"
    )


def test_folders_are_harmless_and_no_two_hosts_share_one(tmp_path: Path) -> None:
    odd = ["../../etc", "a/b", "a<b>", "a-b", "..", "me@node:22", "«x»", "auth-token"]
    named = comparing.folders(odd)
    assert len(set(named.values())) == len(odd)
    for folder in named.values():
        assert re.fullmatch(r"[A-Za-z0-9._+=@-]+", folder)
        assert folder.strip(".")
    files = written(tmp_path / "o.zip", *(machine(name, [n]) for n, name in enumerate(odd)))
    assert len([name for name in files if name.endswith("/machine.txt")]) == len(odd)
    assert "auth-token" in files["index.html"], "a host's name is no name of secrets"
    assert "<b>" not in files["index.html"]


def test_what_only_the_environment_of_another_host_calls_a_secret_is_found_everywhere(tmp_path: Path) -> None:
    plain = machine("b", [1])
    excerpts = {"/log (stderr of rank 1): last lines": [f"sent {SECRET} on"]}
    log = _collected(
        "logs", "", {"logs/x.txt": f"sent {SECRET} on\n"}, {}, excerpts=excerpts, missing=[f"read {SECRET}"]
    )
    plain = dataclasses.replace(plain, parts=[*plain.parts, log])
    plain = dataclasses.replace(plain, tokens=["Agents-0wn-t0ken"], ranks=[1])
    plain = dataclasses.replace(plain, parts=[*plain.parts, _collected("pci", "Agents-0wn-t0ken was seen", {}, {})])
    lost = OnHost("c", [2], (), f"ssh said {SECRET}")
    files = written(tmp_path / "s.zip", machine("a", [0], TEAM_PASSWORD=SECRET), plain, lost)
    assert [name for name, text in files.items() if SECRET in text or "Agents-0wn" in text] == []
    assert "«redacted:" in files["hosts/b/logs/x.txt"]
    assert "TEAM_PASSWORD" in files["index.html"]


# --- what runs there -----------------------------------------------------------------------------------------------


def test_what_is_read_of_a_machine_travels_as_it_is() -> None:
    collected = of_machine(Subject("x"), machines=100, timeout=20)
    assert {"host", "versions", "commands", "environment", "gpu", "logs", "configs"} <= {
        c.name for c in collected.parts
    }
    assert not [c.trace for c in collected.parts if c.trace]
    assert wire.loads(wire.dumps(collected)) == collected


def test_logs_that_another_host_reads_are_left_to_it_and_of_many_hosts_less_is_kept(tmp_path: Path) -> None:
    shared, own = tmp_path / "job.out", tmp_path / "own.log"
    for path in (shared, own):
        path.write_text("ERROR " + "x" * 90 + "\n" * 1 + "".join(f"ERROR {n} {'y' * 90}\n" for n in range(9_000)))
    left = [str(shared), str(own)]
    alone = log_part.collect(Context(Subject(left_logs=left, others_logs=[str(shared)]), timeout=20))
    assert {name.partition(".l")[0] for name in alone.texts} == {"logs/own"}
    of_many = log_part.collect(Context(Subject(left_logs=left), timeout=20, machines=100))
    assert sum(map(len, of_many.texts.values())) < 2.5 * log_part.ALL_BYTES / 100


def test_a_host_without_the_automaton_reads_its_logs_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.log"
    path.write_text("fine\nValueError: bad\n0: NCCL INFO Bootstrap\nCUDA out of memory\n")
    context = Context(Subject(), logs=(str(path),), timeout=20)
    usual = log_part.collect(context)
    log_part._finder.cache_clear()
    monkeypatch.setitem(sys.modules, "ahocorasick_rs", None)
    try:
        assert log_part.collect(context) == usual
    finally:
        log_part._finder.cache_clear()


def test_gpus_of_all_hosts_are_asked_of_the_job(tmp_path: Path) -> None:
    nothing = NotAvailable("no driver")

    def gpus(left_s: float) -> Result:
        return GpuReport((), nothing, nothing)

    asked = {**_subject(machine("a", [0])).questions, "gpu": gpus}
    made = report.write(tmp_path / "g.zip", Subject("ssh:a", questions=asked), timeout=20)
    assert next(p.summary for p in made.parts if p.name == "gpu") == "no GPU was seen on any host"


def test_a_host_is_read_with_its_own_ranks() -> None:
    """In this process, whose number stands for a rank's."""
    roster = spread_part.Roster(
        "k" * 8, "ssh:a", (spread_part.Member(os.getpid(), 3, 8, "", True, ("/nowhere/job.out",)),)
    )
    try:
        found = {c.name: c for c in spread_part.machine(roster, [], ["/nowhere/job.out"], 2, 20.0).parts}
    finally:
        spread_part.close(roster.key)
    commands = found["commands"].part
    assert commands is not None
    assert [row["who"] for row in commands.data["processes"]][-1] == "rank 3"
    environment = found["environment"].part
    assert environment is not None
    assert environment.texts["environment.txt"].startswith("# rank 3\n")
