"""Views speak the reader's language: in sentences, above columns, before values, and to those who hear a page."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterable, Iterator

import pytest
from render_scenes import EMPTY, LARGE, SMALL
from support import REPO

from jupyter_traindbg import render
from jupyter_traindbg.language import speaking
from jupyter_traindbg.model import ModelShape, Plan, Result, SqlRows
from jupyter_traindbg.model.preflight import PreflightPort
from jupyter_traindbg.render.blocks import Bar, Block, Card, Cards, Curve, Fold, Items, Pairs, Table, spans
from jupyter_traindbg.render.document import document
from jupyter_traindbg.render.setting_names import SETTINGS
from jupyter_traindbg.render.views.preflight import port_state
from jupyter_traindbg.words.waits import STATES, state_words

PACKAGE = REPO / "jupyter_traindbg"
SPOKEN = ("render", "widgets", "live", "pictures", "words")
SAYS = {"text", "later", "counted", "later_counted", "pgettext", "either"}
PROSE = re.compile(r"\b[a-z]{2,} [a-z]{2,}\b")
NO_PROSE = {
    # what as_text asks rich for, what CSS and matplotlib are asked for
    "dim not bold", "bold yellow", "bold red", "bold cyan", "axes fraction", "offset points", "outside upper right", "upper left",
    "noopener noreferrer", "`%watch --once --view events`", "`%sql 'select rank, avg(data_wait_s) from steps group by rank'`",
    # words of `jupyter_traindbg.model` by which something is looked up
    "in force", "does nothing", "unused here", "not known", "not seen", "not done", "default group", "empty directory",
    "power brake", "hardware slowdown", "old name",
    # `compact_ranks` is in English in every language
    "no rank",
}  # fmt: skip
NAMED = {"Answer", "Bar", "Column", "Fold", "Items", "Line", "Pair", "Part", "Table"}
TERMS = {
    "/dev/shm", "CPU", "CUDA", "GPU", "Inf", "NaN", "Python", "SHA-256", "Xid", "agent", "dtype", "lr", "max |g|", "pid",
    "rank", "torch", "°C", "Parquet",
}  # fmt: skip
"""What is called so in every language: columns of names and units."""


def said_as_it_is(path: str, tree: ast.AST) -> Iterator[tuple[str, int, str]]:
    """Prose that no message is, and names of columns and the like that are English constants; docstrings and errors apart."""
    inside: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in SAYS:
            inside |= {id(one) for argument in node.args for one in ast.walk(argument)}
        elif isinstance(node, (ast.Raise, ast.Assert, ast.Subscript, ast.Compare)):
            inside |= {id(one) for one in ast.walk(node)}
        elif isinstance(node, ast.Dict):
            inside |= {id(key) for key in node.keys}
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            inside.add(id(node.value))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LOGS:
            inside |= {id(one) for one in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            if PROSE.search(node.value) and node.value not in NO_PROSE and "(" not in node.value[:4]:
                yield path, node.lineno, node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in NAMED and node.args:
            first = node.args[0]
            if isinstance(first, ast.Constant) and re.search("[a-z]{2}", str(first.value)) and first.value not in TERMS:
                yield path, node.lineno, str(first.value)


LOGS = {"debug", "info", "warning", "exception", "error", "compile", "fullmatch", "filterwarnings"}
"""What is called with words that no reader sees."""


def test_all_prose_is_a_message() -> None:
    found = [
        one
        for part in SPOKEN
        for path in sorted((PACKAGE / part).rglob("*.py"))
        for one in said_as_it_is(str(path.relative_to(PACKAGE)), ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == []


# --- headings and labels ---------------------------------------------------------------------------------------------


def labels(blocks: Iterable[Block]) -> Iterator[str]:
    """What a view calls things: its headings, columns, labels and folds."""
    for block in blocks:
        match block:
            case Table():
                yield from (column.name for column in block.columns)
                yield from (_words(block.caption), block.noun)
            case Pairs():
                for pair in block.pairs:
                    yield pair.label
                    yield from labels(pair.below)
            case Bar():
                yield from (_words(block.label), *(part.name for part in block.parts))
            case Curve():
                yield from (block.label, block.words)
            case Items():
                yield _words(block.lead)
            case Card():
                yield from labels(block.body)
            case Cards():
                yield from labels(block.cards)
            case Fold():
                yield _words(block.summary)
                yield from labels(block.body)


def _words(inline: object) -> str:
    return "".join(span.text for span in spans(inline))  # type: ignore[arg-type]


NAMES = frozenset(
    ("agent", "attach", "cuda", "dtype", "gloo", "loss", "max", "pid", "rank", "ranks", "step", "torch", "worker")
)
"""Names of ours and of the field that are written so in Chinese, too."""
FIXED = re.compile(r"gloo takes the address of node\d+|every \d+th")
"""What a scene has in English, and `compact_ranks` in every language."""
OURS = re.compile(r"\b[a-z]{3,}\b")


def left_in_english(label: str) -> list[str]:
    """Words that are neither a name of the trainee's (a path, ``model.layers``) nor a term."""
    named = re.sub(r"\S*(?:[./_#=]|::)\S*(?: \w+(?=（))?", " ", FIXED.sub(" ", label))
    return [word for word in OURS.findall(named) if word not in NAMES]


SCENES = [
    (f"{size} {name}", one)
    for size, all_ in (("small", SMALL), ("large", LARGE), ("empty", EMPTY))
    for name, one in all_.items()
]


@pytest.mark.parametrize(("name", "result"), SCENES, ids=[name for name, _ in SCENES])
def test_no_heading_and_no_label_is_english(name: str, result: Result) -> None:
    queried = {column.name for column in result.columns} if isinstance(result, SqlRows) else set()
    with speaking("zh"):
        said = [label for label in labels(document(result)) if label not in queried]
    assert {label: left for label in said if (left := left_in_english(label))} == {}


def test_english_would_be_found() -> None:
    assert left_in_english("since the attach") == ["since", "the"]
    assert left_in_english("rank 3 · model.layers.0.weight · torch") == []


# --- words of closed sets --------------------------------------------------------------------------------------------


def test_each_setting_of_a_configuration_has_words() -> None:
    kept_apart = {"machine", "dialects", "files", "model", "environ", "ray_custom", "ray_trial"}
    fields = [f"model_{one.name}" for one in dataclasses.fields(ModelShape)]
    fields += [one.name for one in dataclasses.fields(Plan) if one.name not in kept_apart]
    assert {field.replace("_", " ") for field in fields} == SETTINGS


def test_each_state_has_words() -> None:
    ports = re.findall(r"'([a-z ]+)'", str(PreflightPort.__dataclass_fields__["state"].type).replace('"', "'"))
    assert len(ports) == 8
    with speaking("zh"):
        said = [*map(port_state, ports), *map(state_words, STATES)]  # type: ignore[arg-type]
    assert [words for words in said if re.search("[a-z]", words)] == []


# --- what it looks like ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scene", "heading"),
    [
        ("steps", "rank    最后一步  attach 后  每步中位数  数据等待  最新 loss         学习率"),
        ("lr", "组  学习率  之后各步                           权重衰减  动量               元素数"),
        ("collectives", "rank    默认进程组  mesh_tp  等待于                        已持续  位置"),
        (
            "gpu",
            "GPU                           显存  利用率         功耗  °C  降频原因      ECC 错误      Xid",
        ),
        ("attached", "rank            pid   agent          Python  torch  框架"),
    ],
)
def test_headings_in_chinese(scene: str, heading: str) -> None:
    with speaking("zh"):
        assert heading in render.text(SMALL[scene], 120).splitlines()
    assert heading not in render.text(SMALL[scene], 120)


@pytest.mark.parametrize(("name", "result"), SCENES, ids=[name for name, _ in SCENES])
def test_no_line_is_wider_than_the_terminal(name: str, result: Result) -> None:
    from rich.cells import cell_len

    with speaking("zh"):
        widest = max((cell_len(line) for line in render.text(result, 80).splitlines()), default=0)
    assert widest <= 80


def test_a_page_says_it_to_those_who_hear_it() -> None:
    with speaking("zh"):
        page = render.html(LARGE["stacks, all different"]) + render.html(LARGE["steps"]) + render.html(LARGE["memory"])
    assert 'aria-label="调用帧，最内层在前"' in page
    assert 'aria-label="恢复原来的顺序"' in page
    assert re.search(r"<summary>…… 还有 \d+ 个 rank</summary>", page)
    assert "not available" not in page
    assert page.count('<div class="traindbg-view" lang="zh">') == 3  # for a voice, and the shapes of ideographs
    assert "lang=" not in render.html(LARGE["steps"])
