"""The grammar of targets: each form, what has none, and that a name and its text are the same thing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from cases import each

import jupyter_traindbg
from jupyter_traindbg.model import (
    TargetName,
    host_begun,
    hosts_named,
    hosts_written,
    is_cluster,
    may_mean_a_target,
    named_launcher,
    names_slurm_job,
    parse_cluster,
    parse_target,
    target,
)

TAKING_APART = ("startswith", "removeprefix", "partition", "split", "fullmatch", "match")
PREFIX = re.compile(r"(?:torchrun|kernel|ray|ssh|slurm):(?!//|:)")

NAMES = [
    ("4711", TargetName("process", "4711")),
    ("self", TargetName("self")),
    ("kernel:train.ipynb", TargetName("kernel", "train.ipynb")),
    ("kernel:/tmp/kernel-1.json", TargetName("kernel", "/tmp/kernel-1.json")),
    ("kernel:4711", TargetName("kernel", "4711")),
    ("torchrun:4711", TargetName("launcher", "4711")),
    ("torchrun:me", TargetName("launcher", "me")),
    ("ray:auto", TargetName("ray", "", "auto")),
    ("ray:02000000", TargetName("ray", "02000000", "auto")),
    ("ray:raysubmit_Xy12@10.0.0.1:6379", TargetName("ray", "raysubmit_Xy12", "10.0.0.1:6379")),
    ("ray:my@job@head:6379", TargetName("ray", "my@job", "head:6379")),
    ("ray:@10.0.0.1:6379", TargetName("ray", "", "10.0.0.1:6379")),
    ("ray:02000000@ray://head:10001", TargetName("ray", "02000000", "ray://head:10001")),
    ("ray:02000000@https://rays.example.org/team", TargetName("ray", "02000000", "https://rays.example.org/team")),
    ("ssh:node1", TargetName("ssh", "", "node1")),
    ("ssh:node1,node2:torchrun", TargetName("ssh", "torchrun", "node1,node2")),
    ("ssh:me@node1:4711", TargetName("ssh", "4711", "me@node1")),
    ("ssh:node[01-16]:torchrun:41", TargetName("ssh", "torchrun:41", "node[01-16]")),
    ("ssh:[fe80::1%eth0],b:kernel:0af3", TargetName("ssh", "kernel:0af3", "[fe80::1%eth0],b")),
    ("slurm:4242", TargetName("slurm", "", "4242")),
    ("slurm:4242_7:torchrun", TargetName("slurm", "torchrun", "4242_7")),
    ("slurm:4242:4711", TargetName("slurm", "4711", "4242")),
    ("slurm:", TargetName("slurm")),
    ("/tmp/traindbg-0/1-2/agent.sock", TargetName("socket", "/tmp/traindbg-0/1-2/agent.sock")),
    ("./agent.sock", TargetName("socket", "./agent.sock")),
]
LONGER = [
    ("ray:", TargetName("ray", "", "auto")),
    ("ray:02000000@auto", TargetName("ray", "02000000", "auto")),
    ("ray:head:6379", TargetName("ray", "", "head:6379")),
    ("ray:[::1]:6379", TargetName("ray", "", "[::1]:6379")),
    ("ray://head:10001", TargetName("ray", "", "ray://head:10001")),
    ("http://head:8265/", TargetName("ray", "", "http://head:8265/")),
    (" 4711 ", TargetName("process", "4711")),
    ("ssh:node1:", TargetName("ssh", "", "node1")),
    ("ssh: a, b :4711", TargetName("ssh", "4711", "a, b")),
]


@each(
    "text, hosts",
    [
        ("a", ["a"]),
        ("me@a, b.example.org", ["me@a", "b.example.org"]),
        ("a,b,a", ["a", "b"]),
        ("[fe80::1%eth0],me@[::1]", ["fe80::1%eth0", "me@::1"]),
        ("node[08-10]", ["node08", "node09", "node10"]),
        ("rack[1,3-4]-gpu,x", ["rack1-gpu", "rack3-gpu", "rack4-gpu", "x"]),
        ("", None),
        ("a,,b", None),
        ("-oProxyCommand=reboot", None),
        ("me@-oProxyCommand=reboot", None),
        ("-l@a", None),
        ("a b", None),
        ("a;reboot", None),
        ("$(reboot)", None),
        ("rack[1-2]n[01-02],x", ["rack1n01", "rack1n02", "rack2n01", "rack2n02", "x"]),
        ("rack[1-2]n[01-02", None),
        ("node[1-100000]", None),
        ("a[1-1000]b[1-1000]c[1-1000]", None),
        ("node[5-3]", None),
    ],
)
def test_hosts_are_named_as_ssh_takes_them_and_never_as_one_of_its_options(text: str, hosts: list[str] | None) -> None:
    assert hosts_named(text) == hosts


@each(
    "text, hosts",
    [
        ("a", ["a"]),
        ("b,a", ["b", "a"]),
        ("node1,node2,node3", ["node1", "node2", "node3"]),
        ("node[08-11],x", ["node08", "node09", "node10", "node11", "x"]),
        ("node[9-12]", ["node9", "node10", "node11", "node12"]),
        ("me@[fe80::1],10.0.0.1", ["me@fe80::1", "10.0.0.1"]),
        ("node1,node3,node2", ["node1", "node3", "node2"]),
        ("gpu[1-4]-a,gpu1-b", ["gpu1-a", "gpu2-a", "gpu3-a", "gpu4-a", "gpu1-b"]),
    ],
)
def test_many_hosts_are_written_in_few_words(text: str, hosts: list[str]) -> None:
    assert hosts_written(hosts) == text
    assert hosts_named(text) == hosts


@each(
    "text, parts",
    [
        ("ssh:", ("ssh", "ssh:", "")),
        ("ssh:no", ("ssh", "ssh:", "no")),
        ("ssh:a,no", ("ssh", "ssh:a,", "no")),
        ("ssh:a:4", None),
        ("slurm:42", ("slurm", "slurm:", "42")),
        ("slurm:42:tor", None),
        ("ss", None),
    ],
)
def test_a_host_that_is_being_typed_is_told_from_those_before_it(text: str, parts: tuple[str, str, str] | None) -> None:
    assert host_begun(text) == parts


@each(
    "text, names",
    [("", True), ("4242", True), ("4242_7", True), ("0", False), ("4242_", False), ("node1", False), ("-1", False)],
)
def test_what_can_be_a_job_of_slurm(text: str, names: bool) -> None:
    assert names_slurm_job(text) is names


@each(("text", "name"), NAMES)
def test_a_target_is_taken_apart_and_put_together_again(text: str, name: TargetName) -> None:
    assert parse_target(text) == name
    assert str(name) == text


@each(("text", "name"), LONGER)
def test_of_several_forms_one_is_written(text: str, name: TargetName) -> None:
    assert parse_target(text) == name
    assert str(name) != text
    assert parse_target(str(name)) == name


@each("text", ["", "nonsense", "0", "0123", "01000000", "raysubmit_Ab1", "pid:4711", "head:6379", "auto", "a:b/c"])
def test_what_has_the_form_of_no_target(text: str) -> None:
    assert parse_target(text) is None


@each(
    ("text", "name"),
    [
        ("auto", TargetName("ray", "", "auto")),
        ("10.0.0.1:6379", TargetName("ray", "", "10.0.0.1:6379")),
        ("http://head:8265", TargetName("ray", "", "http://head:8265")),
        ("02000000", TargetName("ray", "02000000", "auto")),
        ("raysubmit_Ab1@head:6379", TargetName("ray", "raysubmit_Ab1", "head:6379")),
        ("ray:head:99999", TargetName("ray", "", "head:99999")),
        ("ftp://head:1", TargetName("ray", "", "ftp://head:1")),
        (" ray:auto ", TargetName("ray", "", "auto")),
    ],
)
def test_where_only_a_cluster_can_be_meant_less_will_do(text: str, name: TargetName) -> None:
    assert parse_cluster(text) == name


@pytest.mark.parametrize("text", [text for text, name in (*NAMES, *LONGER) if name.kind == "ray"])
def test_every_target_of_ray_means_the_same_where_only_a_cluster_can_be_meant(text: str) -> None:
    assert parse_cluster(text) == parse_target(text)
    assert is_cluster(text)


@each(
    ("text", "cluster", "target"),
    [
        ("auto", True, False),  # it may be a file's name
        ("head:6379", True, False),
        ("http://head:8265", True, True),
        ("ray:auto", True, True),
        ("02000000", False, True),
        ("raysubmit_Ab1", False, True),
        ("4711", False, True),
        ("20261127", False, True),
        ("torchrun:12", False, True),
        ("kernel:1", False, True),
        ("self", False, True),
        ("a/b:12", False, False),
        ("rescue", False, False),
        ("/tmp/agent.sock", False, False),
    ],
)
def test_where_it_could_be_a_file_as_well(text: str, cluster: bool, target: bool) -> None:
    assert is_cluster(text) == cluster
    assert may_mean_a_target(text) == target


@each(
    ("text", "pid"),
    [("torchrun:4711", 4711), ("torchrun:", None), ("torchrun:me", None), ("4711", None), ("nonsense", None)],
)
def test_the_pid_of_a_launcher(text: str, pid: int | None) -> None:
    assert named_launcher(text) == pid


def test_the_pid_of_a_process_and_of_nothing_else() -> None:
    assert TargetName("process", "4711").pid == 4711
    assert TargetName("kernel", "4711").pid is None
    assert named_launcher(None) is None


def literals(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and text of what f-strings begin with, and of what texts are asked to begin with or divided at."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr) and node.values and isinstance(node.values[0], ast.Constant):
            yield node.lineno, str(node.values[0].value)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in TAKING_APART:
            told = (inner for argument in node.args for inner in ast.walk(argument))
            yield from ((node.lineno, str(one.value)) for one in told if isinstance(one, ast.Constant))


def test_nobody_else_takes_targets_apart_or_puts_them_together() -> None:
    package = Path(jupyter_traindbg.__file__).parent
    files = [file for file in package.rglob("*.py") if file != Path(target.__file__)]
    assert len(files) > 500
    found = [
        f"{file.relative_to(package)}:{line} {text!r}"
        for file in files
        for line, text in literals(ast.parse(file.read_text(encoding="utf-8")))
        if PREFIX.match(text)
    ]
    assert found == []
