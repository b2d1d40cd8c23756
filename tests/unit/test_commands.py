"""Commands in texts: how they are spelled where the person is, which job they name, and that the texts of the package name real ones."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tomllib
from cases import each

from jupyter_traindbg import commands
from jupyter_traindbg.errors import AmbiguousTarget, GilHeld, UsageError
from jupyter_traindbg.magics import base

PACKAGE = Path(commands.__file__).parent
QUOTED = re.compile("`([^`]*)`")
IPYTHONS = ("%debug", "%load_ext", "%pip")
STAND_INS = {"TARGET": "4711", "VALUE": "1e-4", "PID": "4711", "N": "3", "...": "x"}


@pytest.fixture
def notebook() -> Iterator[None]:
    commands.in_a_notebook(True)
    yield
    commands.in_a_notebook(False)


@each(
    ("written", "target", "terminal", "magic"),
    [
        ("%lr --undo", None, "traindbg lr --undo", "%lr --undo"),
        ("traindbg lr --undo", None, "traindbg lr --undo", "%lr --undo"),
        ("%lr --undo", "4711", "traindbg lr 4711 --undo", "%lr 4711 --undo"),
        ("%lr TARGET", "4711", "traindbg lr 4711", "%lr 4711"),
        ("%plot profile TARGET", "4711", "traindbg plot profile 4711", "%plot profile 4711"),
        ("%plot profile TARGET", None, "traindbg plot profile", "%plot profile"),
        ("traindbg grads TARGET --first-nan", None, "traindbg grads --first-nan", "%grads --first-nan"),
        ("%lr VALUE", "4711", "traindbg lr 4711 VALUE", "%lr 4711 VALUE"),
        ("%lr 3e-4", "4711", "traindbg lr 4711 3e-4", "%lr 4711 3e-4"),
        ("%lr 42", "4711", "traindbg lr 42", "%lr 42"),
        ("traindbg stacks 42", "4711", "traindbg stacks 42", "%stacks 42"),
        ("%checkpoint DIR", "4711", "traindbg checkpoint 4711 DIR", "%checkpoint 4711 DIR"),
        ("%checkpoint 42 DIR", "4711", "traindbg checkpoint 42 DIR", "%checkpoint 42 DIR"),
        (
            "%checkpoint DIR --overwrite",
            "4711",
            "traindbg checkpoint 4711 DIR --overwrite",
            "%checkpoint 4711 DIR --overwrite",
        ),
        ("%checkpoint --verify DIR", "4711", "traindbg checkpoint --verify DIR", "%checkpoint --verify DIR"),
        ("%targets", "4711", "traindbg targets", "%targets"),
        (
            "traindbg ray-workers --tier 0",
            "ray:auto",
            "traindbg ray-workers ray:auto --tier 0",
            "%ray_workers ray:auto --tier 0",
        ),
        ("%nccl_check --preflight", "4711", "traindbg nccl-check --preflight", "%nccl_check --preflight"),
        ("%stacks", "/tmp/a b.sock", "traindbg stacks '/tmp/a b.sock'", "%stacks '/tmp/a b.sock'"),
        ("%timeit x", "4711", "%timeit x", "%timeit x"),
        ("traindbg --help", "4711", "traindbg --help", "traindbg --help"),
        ("train.py", "4711", "train.py", "train.py"),
    ],
)
def test_a_command_is_spelled_for_where_the_person_is(
    written: str, target: str | None, terminal: str, magic: str
) -> None:
    with commands.about(target):
        assert commands.command(written) == terminal
        commands.in_a_notebook(True)
        try:
            assert commands.command(written) == magic
        finally:
            commands.in_a_notebook(False)


def test_only_what_stands_between_backticks_is_a_command(notebook: None) -> None:
    text = "see `traindbg lr`, not `kill 1`; traindbg lr and 5 % lr stay, and so does `"
    assert commands.spelled(text) == text.replace("`traindbg lr`", "`%lr`")
    assert commands.spelled_all({"a": ["`%lr`", 1, None], "b": {"c": "`traindbg ray-workers`"}}) == {
        "a": ["`%lr`", 1, None],
        "b": {"c": "`%ray_workers`"},
    }


def test_every_verb_is_known_without_being_imported() -> None:
    assert set(commands.verbs()) >= {"attach", "lr", "ray_workers", "targets"}
    for name in commands.verbs():
        assert callable(base.load(name).run)


# --- errors


def test_an_error_names_the_job_that_was_asked_about(notebook: None) -> None:
    error = GilHeld("C code holds the GIL")
    error.asked_about = "4711"
    assert str(error).startswith("C code holds the GIL; `%stacks 4711` shows")


def test_candidates_are_the_command_that_was_typed_with_each_of_them() -> None:
    error = AmbiguousTarget(
        "there are 2 jobs to choose from", candidates={"4711": "python train.py", "/tmp/a b.sock": ""}
    )
    assert str(error) == "there are 2 jobs to choose from; name one of them: 4711 (python train.py), /tmp/a b.sock"
    error.asked = ("ray_rescue", "--leftovers")
    assert error.choices() == [
        "traindbg ray-rescue 4711 --leftovers",
        "traindbg ray-rescue '/tmp/a b.sock' --leftovers",
    ]
    assert str(error).endswith(
        "name one of them: `traindbg ray-rescue 4711 --leftovers` (python train.py), `traindbg ray-rescue '/tmp/a b.sock' --leftovers`"
    )
    meant = AmbiguousTarget("two kernels", candidates={"kernel:1a": "", "kernel:1b": ""}, instead_of="kernel:1")
    meant.asked = ("lr", "kernel:1 --undo")
    assert meant.choices() == ["traindbg lr kernel:1a --undo", "traindbg lr kernel:1b --undo"]
    many = AmbiguousTarget("many", candidates=dict.fromkeys(map(str, range(20)), ""))
    assert str(many) == "many; name one of them: 0, 1, 2, 3, and 16 more"


# --- the texts of the package


def _strings(tree: ast.AST) -> Iterator[str]:
    """All text in the code apart from docstrings; what an f-string puts in is a 4711."""
    inside = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            inside |= {id(part) for part in node.values}
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "4711" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield node.value


def _texts() -> Iterator[tuple[str, str]]:
    for file in sorted(PACKAGE.rglob("*.py")):
        yield from ((str(file.relative_to(PACKAGE)), text) for text in _strings(ast.parse(file.read_text())))
    for file in sorted(PACKAGE.rglob("*.toml")):
        yield from ((str(file.relative_to(PACKAGE)), text) for text in _leaves(tomllib.loads(file.read_text())))


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _leaves(inner)


def test_the_texts_of_the_package_name_commands_that_exist() -> None:
    """Each between backticks, with words that its verb takes."""
    found = 0
    for file, text in _texts():
        for words in QUOTED.findall(text):
            spelled = commands.command(words)
            if not re.match(r"%[a-z]|traindbg [a-z]", words) or words.startswith(IPYTHONS):
                continue
            match = re.fullmatch(r"traindbg ([a-z-]+)(.*)", spelled)
            assert match is not None, f"{file}: there is no command `{words}`"
            rest = re.sub(r"\{\w+\}", "4711", match[2])
            typed = [STAND_INS.get(word, word) for word in base.split(rest)]
            try:
                base.parser(match[1].replace("-", "_")).parse_args(typed)
            except UsageError as e:
                pytest.fail(f"{file}: `{words}`: {e}")
            found += 1
    assert found > 100


def test_commands_in_the_texts_of_the_package_stand_between_backticks() -> None:
    """Only so are they spelled for where the person is."""
    magics = "|".join(commands.verbs())
    bare = re.compile(rf"(?<![\w`%])(?:%(?:{magics})\b|traindbg (?:{magics.replace('_', '-')}) (?:-|[A-Z]{{3}}|4711))")
    for file, text in _texts():
        if not re.fullmatch(r"%\w+(?: .*)?", text):  # a whole command by itself, which is shown as one
            assert not bare.search(QUOTED.sub("", text)), f"{file}: {text[:200]}"
