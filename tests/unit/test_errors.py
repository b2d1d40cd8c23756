"""Errors are in the language of whoever asked, wherever they are raised and wherever they are read."""

from __future__ import annotations

import ast
import os
import pickle
import re
import shlex
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cases import each
from support import REPO

from jupyter_traindbg import checkpoints, cli, commands, errors
from jupyter_traindbg.actions import tuning
from jupyter_traindbg.attach import access, agent_socket, parsed, resolve
from jupyter_traindbg.errors import AmbiguousTarget, TargetGone, TraindbgError, UsageError
from jupyter_traindbg.hosts import wire
from jupyter_traindbg.language import speaking
from jupyter_traindbg.magics import base
from jupyter_traindbg.magics.ipython import error_lines
from jupyter_traindbg.model import TargetName
from jupyter_traindbg.outside import flightrec, logs
from jupyter_traindbg.outside.raystate import addresses
from jupyter_traindbg.preflight.config import files
from jupyter_traindbg.questions.jobless import log
from jupyter_traindbg.tasks import each as each_of

PACKAGE = REPO / "jupyter_traindbg"
IDEOGRAPHS = re.compile("[\u3400-\u9fff]")
SAYS = ("text", "counted", "pgettext", "later", "meant")
MAY_BE_PLAIN = re.compile(r"(?:.* -m )?pip install [^,;]+|`(?:%|pip )[^`]*`|--[a-z-]+ \d+|", re.DOTALL)
"""Commands: nobody translates them. And nothing at all."""
ENGLISH = re.compile(r"[a-z]{2,} [a-z]{2,}|\band\b|^[,;] $")


# --- what the code says ------------------------------------------------------------------------------------------------


def families() -> set[str]:
    """The names of all classes of errors, those that parts of the package have for themselves, too."""
    found, more = set(errors.__all__), True
    classes = [
        node
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    ]
    while more:
        new = {c.name for c in classes if any(isinstance(b, ast.Name) and b.id in found for b in c.bases)} - found
        found |= new
        more = bool(new)
    return found


FAMILIES = families()


def made(tree: ast.AST) -> Iterator[tuple[ast.Call, dict[str, list[ast.expr]]]]:
    """Every call that makes an error, with what has been assigned to names where it stands."""
    for call, scope in calls(tree, tree):
        if makes_an_error(call.func):
            named: dict[str, list[ast.expr]] = {}
            for node in ast.walk(scope):
                if isinstance(node, ast.Assign):
                    for target in node.targets:
                        if isinstance(target, ast.Name):
                            named.setdefault(target.id, []).append(node.value)
            yield call, named


def calls(node: ast.AST, scope: ast.AST) -> Iterator[tuple[ast.Call, ast.AST]]:
    """Every call in `node`, each with the innermost function that it is in."""
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, ast.Call):
            yield inner, scope
        yield from calls(inner, inner if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef)) else scope)


def makes_an_error(function: ast.expr) -> bool:
    """``UsageError(...)``, ``errors.UsageError(...)``, and ``type(error)(...)``, by which one is raised again."""
    if isinstance(function, ast.Call):
        return (
            isinstance(function.func, ast.Name) and function.func.id == "type" and "e" in ast.unparse(function.args[0])
        )
    name = (
        function.id if isinstance(function, ast.Name) else function.attr if isinstance(function, ast.Attribute) else ""
    )
    return name in FAMILIES


def plain_words(node: ast.expr, named: dict[str, list[ast.expr]]) -> Iterator[str]:
    """What is in `node`, or was assigned to a name that is, in plain English."""
    if isinstance(node, ast.Name):
        for value in named.get(node.id, ()):
            if isinstance(value, (ast.Constant, ast.JoinedStr, ast.BinOp, ast.IfExp)):
                yield from plain_words(value, {})
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, str) and not MAY_BE_PLAIN.fullmatch(node.value):
            yield node.value
    elif isinstance(node, ast.JoinedStr):
        shown = "".join(str(p.value) if isinstance(p, ast.Constant) else "X" for p in node.values)
        if not MAY_BE_PLAIN.fullmatch(shown):
            yield shown
    elif isinstance(node, ast.IfExp):
        yield from plain_words(node.body, named)
        yield from plain_words(node.orelse, named)
    elif isinstance(node, (ast.BinOp, ast.BoolOp)):
        parts = [node.left, node.right] if isinstance(node, ast.BinOp) else node.values
        for part in parts:
            yield from plain_words(part, named)


def filled_in(node: ast.expr) -> Iterator[str]:
    """English in what a message is filled with."""
    passed_over = {
        id(inner)
        for part in ast.walk(node)
        for inner in (
            part.args
            if isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id in SAYS
            else ast.walk(part)
            if isinstance(part, (ast.Compare, ast.Subscript))
            else ()
        )
    }
    for part in ast.walk(node):
        if not isinstance(part, ast.Constant) or not isinstance(part.value, str) or id(part) in passed_over:
            continue
        if ENGLISH.search(part.value) and not MAY_BE_PLAIN.fullmatch(part.value):
            yield part.value


def not_said(source: str) -> list[tuple[int, str]]:
    """The lines of errors whose words are in English, and these words."""
    found = []
    for call, named in made(ast.parse(source)):
        words = [*call.args[:2], *(k.value for k in call.keywords if k.arg in ("cause", "next_step"))]
        for one in words:
            found += [(call.lineno, plain) for plain in [*plain_words(one, named), *filled_in(one)]]
    return found


@each("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_every_error_says_its_words_by_the_catalogue(path: Path) -> None:
    if "agent" not in path.relative_to(PACKAGE).parts[:1]:
        assert not_said(path.read_text(encoding="utf-8")) == []


@each(
    "line",
    [
        'raise UsageError("no such thing", text("look again"))',
        'raise UsageError(text("no such thing"), "look again")',
        'raise UsageError(text("no such thing"), next_step="look again")',
        'raise errors.UsageError(f"{name} is no such thing")',
        'raise UsageError("there is" + name)',
        'raise UsageError(text("{a} is none") if a else "it is none")',
        'def f():\n    why = f"no such {thing}"\n    raise NoTarget(why)',
        'raise NoTarget(text("not {a}", a=" and ".join(names)))',
        'raise NoTarget(text("not {a}", a=name or "nothing at all"))',
        'raise type(e)(e.cause, f"look again at {e}")',
        'class Own(NoTarget): ...\nraise Busy("it is busy")',
    ],
)
def test_an_error_in_plain_english_is_seen(line: str) -> None:
    assert not_said(line) != []


# --- classes -----------------------------------------------------------------------------------------------------------


@each("name", errors.__all__)
def test_what_a_class_says_by_default_is_in_the_readers_language(name: str) -> None:
    kind = getattr(errors, name)
    with speaking("zh"):
        error = kind("原因")
        assert IDEOGRAPHS.search(error.next_step)
        assert str(error) == f"原因；{commands.spelled(error.next_step)}"
    assert kind("the cause").next_step.isascii()
    assert error.by_default
    assert not kind("the cause", "the step").by_default


def test_an_error_stays_in_the_language_that_it_was_raised_in() -> None:
    with speaking("zh"):
        raised = TargetGone.job_closed("4711")
    for error in (raised, pickle.loads(pickle.dumps(raised)), wire.loads(wire.dumps(raised))):
        assert type(error) is TargetGone
        assert str(error) == "该任务（4711）已关闭；请重新附加"
    english = TargetGone.job_closed("4711")
    with speaking("zh"):
        assert str(english) == "this job (4711) is closed; attach to it again"


def test_several_candidates_are_named_in_the_readers_language() -> None:
    candidates = {str(pid): f"python train.py --run {pid}" for pid in range(11, 41)}
    with speaking("zh"):
        error = AmbiguousTarget("有 30 个任务可选", candidates=candidates)
    assert str(error) == (
        "有 30 个任务可选；请指定其中之一：11 (python train.py --run 11)，12 (python train.py --run 12)，"
        "13 (python train.py --run 13)，14 (python train.py --run 14)，另有 26 个"
    )
    error.asked = ("stacks", "")
    lines = error_lines(error)
    assert "有 30 个任务可选；请指定其中之一：\n  traindbg stacks 11   python train.py --run 11\n" in lines[0]
    assert lines[0].endswith("\n  ……另有 18 个：traindbg targets")


# --- what people see ---------------------------------------------------------------------------------------------------


def usage(line: str) -> Callable[[], object]:
    verb, *words = shlex.split(line)
    return lambda: base.parser(verb).parse_args(words)


RAISED: list[tuple[Callable[[], object], str]] = [
    (lambda: parsed("nonsense"), "'nonsense' 不是目标；`traindbg targets` 显示现有的目标；目标可以是 pid、"),
    (lambda: parsed("01000000"), "'01000000' 不是目标；Ray 任务写作 ray:01000000 或 ray:01000000@ADDRESS"),
    (lambda: parsed("pid 4711"), "pid 直接写：4711"),
    (lambda: access.check(2**22 - 1), f"没有进程 {2**22 - 1}"),
    (lambda: access.check(os.getpid()), f"进程 {os.getpid()} 就是本进程；调用 `traindbg.attach()`"),
    (lambda: resolve(TargetName("launcher", "x"), 1.0), "没有以启动器的 pid 结尾；请写作 torchrun:PID"),
    (lambda: agent_socket.links(TargetName("socket", "/nowhere/agent.sock"), 1.0), "/nowhere/agent.sock 处没有 agent"),
    (lambda: checkpoints.inspect("/nowhere/x.pt"), "/nowhere/x.pt 不存在；请检查检查点的路径"),
    (lambda: flightrec.read("/nowhere/dumps"), "/nowhere/dumps 不存在；转储是 TORCH_FR_DUMP_TEMP_FILE"),
    (lambda: log.of_text(" "), "文本是空的；请给出日志"),
    (lambda: logs.find("/nowhere/a.log"), "没有文件 /nowhere/a.log；请检查路径"),
    (lambda: addresses.resolve("not an address"), "不是 Ray 集群的地址；地址可以是 auto、"),
    (lambda: files.text_of(Path("/")), "/ 是目录；请指定其中的配置文件"),
    (lambda: tuning.clip(0.0, None), "以范数 0 裁剪会使训练停滞；请给出大于 0 的范数"),
    (lambda: tuning.clip(-1.0, None), "裁剪范数不能为负，而给出的是 -1；请给出不小于 0 的数字"),
    (usage("lr --scale"), "--scale：其后必须有一个值；`traindbg lr -h` 显示其用法"),
    (usage("stacks --timeout soon"), "--timeout：'soon' 不是秒数"),
    (usage("stacks --nonesuch"), "--nonesuch 在这里没有意义；`traindbg stacks -h` 显示其用法"),
    (usage("stacks --timeuot 3"), "是否想用 `--timeout`？`traindbg stacks -h` 显示其用法"),
    (lambda: base.split("'"), "无法读取该行：no closing quotation；请补上引号"),
]


@each(("raising", "words"), RAISED, ids=[words for _, words in RAISED])
def test_what_goes_wrong_is_told_in_chinese_and_in_english(raising: Callable[[], object], words: str) -> None:
    with speaking("zh"), pytest.raises(TraindbgError) as caught:
        raising()
    assert words in str(caught.value)
    with pytest.raises(type(caught.value)) as caught:
        raising()
    assert not IDEOGRAPHS.search(str(caught.value))


def test_the_words_of_argparse_are_ours() -> None:
    parser = base.parser("lr")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--this", type=int)
    group.add_argument("--that", choices=("a", "b"))
    told = []
    for words in (["--this", "x"], ["--that", "c"], ["--this", "1", "--that", "a"]):
        for language in ("en", "zh"):
            with speaking(language), pytest.raises(UsageError) as caught:
                parser.parse_args(words)
            told.append(caught.value.cause)
    assert told[0] == "--this: 'x' is no whole number"
    assert told[1] == "--this：'x' 不是整数"
    assert told[2].startswith("--that: 'c' is none of ")
    assert told[3].startswith("--that：'c' 不在 ")
    assert told[4] == "--that: not allowed with argument --this"
    assert told[5] == "--that：不能与参数 --this 同时使用"


def test_at_a_terminal_and_for_programs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TRAINDBG_LANG", "zh")
    assert cli.main(["stacks", "nonsense"]) == cli.BAD_USAGE
    assert capsys.readouterr().err.startswith("traindbg: 'nonsense' 不是目标；`traindbg targets` 显示")
    assert cli.main(["stacks", "nonsense", "--json"]) == cli.BAD_USAGE
    assert capsys.readouterr().err.startswith("traindbg: 'nonsense' is not a target; `traindbg targets` shows")
    assert cli.main(["stakcs"]) == cli.BAD_USAGE
    assert (
        capsys.readouterr().err
        == "traindbg: 没有命令 'stakcs'；是否想用 `traindbg stacks`？`traindbg --help` 显示全部\n"
    )


# --- other threads, other processes ------------------------------------------------------------------------------------


def test_what_runs_on_a_node_speaks_the_language_of_whoever_asks() -> None:
    with speaking("zh"):
        gone = wire.request("jupyter_traindbg.attach.access:check", (2**22 - 1,), {})
        failing = wire.request("jupyter_traindbg.attach.access:check", (), {})
    answers: list[bytes] = []
    there = threading.Thread(target=lambda: answers.extend(map(wire.serve, (gone, failing))))  # which says English
    there.start()
    there.join(30.0)
    with pytest.raises(TargetGone, match=f"^没有进程 {2**22 - 1}；"):
        wire.answered(answers[0], "node 1")
    with pytest.raises(
        errors.ProbeFailed, match=r"^jupyter_traindbg\.attach\.access:check 失败：TypeError：.*；训练不受影响"
    ):
        wire.answered(answers[1], "node 1")


def test_whoever_asks_late_is_told_in_the_same_language() -> None:
    never = threading.Event()
    with speaking("zh"):
        ((_, answer),) = each_of(["a"], lambda _: never.wait(30.0), 0.01, grace_s=0.01)
    never.set()
    assert str(answer).startswith("0.01 秒内没有回答；请加大 --timeout")
