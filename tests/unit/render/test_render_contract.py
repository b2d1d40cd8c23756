"""What holds for the rendering of every result, whatever is in it."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import math
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any

import pytest
from cases import each
from render_scenes import EMPTY, FINDING, INFO, LARGE, SMALL, changed, memory, silent, stacks
from render_scenes_checkpoints import WARNING

from jupyter_traindbg import model, notebook, render
from jupyter_traindbg.model import Finding, NotAvailable, Problem, Result
from jupyter_traindbg.render import as_html, as_text, blocks, brought, document, plain

HOSTILE = "<img src=x onerror=alert(1)></pre><script>alert('1')</script>\"'`\x1b[31m\x07\r\n\x00\x9b\u202etxt.exe\u2028\udc80{{7*7}}[bold]"
TAGS = {
    "div", "style", "p", "strong", "span", "code", "sup", "ul", "ol", "li", "dl", "dt", "dd", "table", "caption", "thead", "tbody", "tr",
    "th", "td", "details", "summary", "figure", "figcaption", "svg", "polyline", "wbr", "line", "section",
    "g", "path", "text", "defs", "use", "clippath", "rect", "img", "label", "input", "a",
}  # fmt: skip
VOID = {"polyline", "wbr", "line", "path", "use", "rect", "img", "input"}
FORBIDDEN_ATTRIBUTES = re.compile(r"on\w+|src|href|srcset|action|formaction|xlink:href")
HARMLESS = {
    ("use", "href"): re.compile(r"#\w+"),
    ("img", "src"): re.compile(r"data:image/png;base64,[\w+/]+=*"),
    ("a", "href"): re.compile(r"https://[^\s<>\"']+|[\w./%~-]+#line=\d+"),
}
"""A part of the same drawing, a picture that is here in full; where a click leads: a page, or a line of a file."""
STEERING = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


@pytest.fixture(autouse=True)
def in_jupyterlab(monkeypatch: pytest.MonkeyPatch) -> None:
    """Links lead to files there."""
    monkeypatch.setattr(notebook, "in_notebook", lambda: True)
    monkeypatch.setattr(brought, "in_notebook", lambda: False)  # each output has its style
    monkeypatch.setenv("JPY_SESSION_NAME", "/home/ada/notebooks/train.ipynb")


every_small = each("result", SMALL.values(), ids=SMALL.keys())
every_result = each("result", [*SMALL.values(), *EMPTY.values()], ids=[*SMALL, *(f"empty {k}" for k in EMPTY)])


class Page(HTMLParser):
    """Checks tags and attributes on the way, and keeps the words."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.source = html
        self.open: list[str] = []
        self.words = ""
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)
        self.close()
        assert self.open == [], "every tag is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS
        self._harmless(tag, attrs)
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in VOID
        self._harmless(tag, attrs)
        self.found.append((tag, dict(attrs)))

    def _harmless(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "input":  # which is in no form, and seen only where our style is
            assert dict(attrs)["type"] in ("radio", "checkbox")
            assert "hidden" in dict(attrs)
        for name, value in attrs:
            if FORBIDDEN_ATTRIBUTES.fullmatch(name):
                assert (tag, name) in HARMLESS
                assert HARMLESS[tag, name].fullmatch(value or "")

    def handle_endtag(self, tag: str) -> None:
        assert tag in VOID or self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words += data

    def folds(self) -> list[dict[str, str | None]]:
        """All but the one of the stylesheet."""
        return [has for tag, has in self.found if tag == "details" and has.get("class") != "traindbg-style"]

    def classes(self) -> set[str]:
        return {name for _, attributes in self.found for name in (attributes.get("class") or "").split()}


def checked(result: Result) -> tuple[str, Page]:
    """Both renderings, after what holds for all of them has been asserted."""
    bundle = render.mimebundle(result)
    assert set(bundle) - {"image/png"} == {"text/plain", "text/html"}
    assert ("image/png" in bundle) == (isinstance(result, model.Picture) and result._drawn is not None)
    text = bundle["text/plain"]
    assert text.strip()
    assert not STEERING.search(text)
    text.encode("utf-8")
    page = Page(bundle["text/html"])
    assert not STEERING.search(bundle["text/html"].replace("\t", " "))
    return text, page


# --- every result --------------------------------------------------------------------------------------------------


def kinds() -> list[type[Result]]:
    return [k for _, k in inspect.getmembers(model, inspect.isclass) if issubclass(k, Result) and k is not Result]


@each("kind", kinds(), ids=lambda k: k.__name__)
def test_every_result_class_has_a_view_a_scene_and_an_empty_scene(kind: type[Result]) -> None:
    assert document.view_of(kind) is not plain.view
    assert kind in {type(r) for r in SMALL.values()}
    assert kind in {type(r) for r in EMPTY.values()}


@every_result
def test_text_and_html(result: Result) -> None:
    text, page = checked(result)
    for tag, attributes in page.found:
        if tag == "th":
            assert attributes.get("scope") in ("row", "col")
    tags = [tag for tag, _ in page.found]
    assert tags.count("caption") == tags.count("table")
    assert {name.split("-")[0] for name in page.classes()} <= {"traindbg"}
    first_line = " ".join(text.splitlines()[0].lstrip("▲✖●✔ ").split(" ·")[0].split())
    assert first_line in re.sub(r"\s+", " ", page.words)


@every_result
def test_the_first_block_is_the_answer_and_the_only_one(result: Result) -> None:
    answer, *details = document.document(result)
    assert isinstance(answer, blocks.Answer)
    assert not any(isinstance(block, blocks.Answer) for block in details)
    words = "".join(span.text for span in blocks.spans(answer.words))
    assert 0 < len(words.splitlines()[0]) < 200


@every_result
@each("width", [40, 80, 120])
def test_text_fits_its_width(result: Result, width: int) -> None:
    from rich.cells import cell_len

    for full in (False, True):
        assert max(cell_len(line) for line in render.text(result, width, full=full).splitlines()) <= width


@every_result
def test_colours_change_no_word(result: Result) -> None:
    plain_text, coloured = render.text(result, 100), render.text(result, 100, colour=True)
    bare = re.sub("\x1b\\[[0-9;]*m", "", coloured)
    assert [line.rstrip() for line in bare.splitlines()] == plain_text.splitlines()
    assert "\x1b[" in coloured


def test_colour_and_width_are_the_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = render.text(SMALL["gpu"], 80)
    for name, value in (("FORCE_COLOR", "1"), ("COLUMNS", "30"), ("TTY_COMPATIBLE", "1"), ("JUPYTER_COLUMNS", "30")):
        monkeypatch.setenv(name, value)
    assert render.text(SMALL["gpu"], 80) == expected
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" in render.text(SMALL["gpu"], 80, colour=True)


@each("result", LARGE.values(), ids=LARGE.keys())
def test_three_hundred_ranks(result: Result) -> None:
    text, page = checked(result)
    assert len(text.splitlines()) < 200
    assert len(page.source.encode()) < 200_000


# --- hostile names, numbers that are none, nothing at all ------------------------------------------------------------


@every_small
def test_what_a_job_wrote_is_shown_and_not_obeyed(result: Result) -> None:
    def write(name: str, kind: str, value: Any) -> Any:
        return HOSTILE if isinstance(value, str) and kind != "WaitKind" else value  # which we choose

    hostile = changed(result, write)
    text, page = checked(hostile)
    for words in (text, page.words):
        assert "onerror" in words, "it is shown"
        assert "\\x1b" in words, "and what it tried is shown too"
    assert "{{7*7}}" in page.words
    assert not STEERING.search(re.sub("\x1b\\[[0-9;]*m", "", render.text(hostile, 100, colour=True, full=True)))


def test_a_name_of_a_megabyte_is_cut() -> None:
    named = changed(SMALL["grads"], lambda name, kind, value: "x" * 10**6 if name == "name" else value)
    assert len(render.html(named)) < 300_000
    assert len(render.text(named, 100)) < 300_000


class Sly(str):
    """A string that is not exactly a str."""


def test_subclasses_of_str_are_cleaned_too() -> None:
    sly = changed(SMALL["attached"], lambda name, kind, value: Sly(HOSTILE) if isinstance(value, str) else value)
    checked(sly)


@every_small
@each("number", [math.nan, math.inf, -math.inf, 1.7e308, -1.0, 0.0])
def test_any_float(result: Result, number: float) -> None:
    odd = changed(result, lambda name, kind, value: number if isinstance(value, float) else value)
    checked(odd)


@every_small
def test_alternating_floats_do_not_overflow(result: Result) -> None:
    values = itertools.cycle([1.7e308, -1.7e308, math.nan])
    checked(changed(result, lambda name, kind, value: next(values) if isinstance(value, float) else value))


def nothing(name: str, kind: str, value: Any) -> Any:
    if "Maybe[" in kind:
        return NotAvailable("this <is> why")
    if kind == "Sequence[float | None]":
        return tuple(None for _ in value)
    return None if kind.endswith("| None") else value


@every_small
def test_everything_that_can_be_missing_is_missing(result: Result) -> None:
    bare = changed(result, nothing)
    text, page = checked(bare)
    if any("Maybe[" in kind for kind in kinds_of_fields(result)):
        assert "this <is> why" in text
        assert "this <is> why" in page.words
        notes = [line for line in text.splitlines() if "not available: this <is> why" in line]
        assert len(notes) <= 1, "a footnote, not a chorus"


def kinds_of_fields(result: Result) -> list[str]:
    found: list[str] = []

    def note(name: str, kind: str, value: Any) -> Any:
        found.append(kind)
        return value

    changed(result, note)
    return found


@every_small
def test_every_sequence_is_empty(result: Result) -> None:
    checked(
        changed(result, lambda name, kind, value: () if isinstance(value, tuple) and "Mapping" not in kind else value)
    )


# --- findings and silences -------------------------------------------------------------------------------------------


GONE = NotAvailable("it was never there")


@dataclass(frozen=True)
class Verdicts(Result):
    """A result class that no view knows."""

    verdict: tuple[Finding, ...]
    answer: int = 42
    nested: Any = None
    gone: Any = GONE
    why: Problem | None = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.verdict

    @property
    def failure(self) -> Problem | None:
        return self.why


def in_order(words: str, *parts: str) -> bool:
    places = [words.find(part) for part in parts]
    return -1 not in places and places == sorted(places)


def test_findings_come_after_the_answer_and_in_full() -> None:
    text, page = checked(Verdicts((FINDING, WARNING, INFO)))
    parts = [
        "Verdicts", "CRITICAL", FINDING.title, FINDING.code, "who", "rank 1, decoder", "where", "train.py:88 training_step", "evidence",
        "rank 0 had 3.1", "both read after", "cause", "a division", "next steps", "run %grads", "clamp", "confidence", "medium",
        "reference", "https://pytorch.org", "WARNING", WARNING.title, "INFO", INFO.title, "answer", "42",
    ]  # fmt: skip
    assert in_order(re.sub(r"\s+", " ", page.words), *parts)
    assert in_order(text[text.index("✖ CRITICAL", text.index("3 ●")) :], *parts[1:])


def test_several_findings_begin_with_a_line_each_and_a_notebook_opens_the_first() -> None:
    text, page = checked(Verdicts((FINDING, WARNING, INFO)))
    lines = text.splitlines()
    assert lines[0] == "Verdicts"
    titles = ("1 ✖ CRITICAL", FINDING), ("2 ▲ WARNING", WARNING), ("3 ● INFO", INFO)
    assert lines[2:5] == [f"  {sign} {finding.title}  {finding.code}" for sign, finding in titles]
    assert ["open" in fold for fold in page.folds()] == [True, False, False]


def test_one_finding_needs_no_summary_and_no_fold() -> None:
    text, page = checked(Verdicts((FINDING,)))
    assert text.count(FINDING.title) == 1
    assert page.folds() == []


def test_the_blamed_line_stands_between_its_neighbours() -> None:
    excerpt = model.Excerpt(
        "/home/ada/train.py", 88, 87, ("def step(batch):", "    loss.backward()  # <b>" + "x" * 200, "")
    )
    text, page = checked(Verdicts((dataclasses.replace(FINDING, source=excerpt),)))
    assert "  87 │ def step(batch):" in text
    assert "> 88 │     loss.backward()  # <b>xx" in text, "marked for eyes that see no colour"
    assert in_order(text, "where", "train.py:88", "87 │", "88 │", "89 │", "evidence")
    assert in_order(
        page.words, "train.py:88", "/home/ada/train.py:88", "def step", "loss.backward()  # <b>", "evidence"
    )
    assert [a for tag, a in page.found if a.get("class") == "traindbg-meant"]


def test_what_is_needed_is_not_folded_at_a_terminal() -> None:
    folds = [blocks.Fold("seen", [blocks.Line("one")], needed=True), blocks.Fold("more", [blocks.Line("two")])]
    assert as_text.draw(folds, width=80, colour=False).split() == ["seen", "one", "▸", "more"]


def test_commands_in_captions_and_footnotes_are_said_as_code() -> None:
    html = as_html.draw(
        [blocks.Table("see `%lr`", [blocks.Column("a")], [[blocks.Span("–", "muted", why="ask `%steps`")]])]
    )
    assert '<caption>see <code class="traindbg-code">traindbg lr</code></caption>' in html
    assert 'not available: ask <code class="traindbg-code">traindbg steps</code>' in html


def test_long_words_go_on_behind_a_joint_and_short_code_is_kept_together() -> None:
    path = "/home/ada/experiments/char-transformer/a&b/engine.py"
    finding = Finding("a", "info", "t", evidence=(f"see {path}", "start it with `--gpus all`", "`plain`"))
    drawn = render.html(dataclasses.replace(EMPTY["diagnosis"], verdict=(finding,)))
    assert "/home/<wbr>ada/<wbr>experiments/<wbr>char-<wbr>transformer/<wbr>a&amp;b/<wbr>engine.<wbr>py" in drawn
    assert '<code class="traindbg-code traindbg-whole">--gpus all</code>' in drawn
    assert '<code class="traindbg-code">plain</code>' in drawn


def test_labels_are_chinese_where_the_reader_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINDBG_LANG", "zh_CN")
    for words in (
        render.text(Verdicts((FINDING, WARNING, INFO)), 100),
        render.html(Verdicts((FINDING, WARNING, INFO))),
    ):
        labels = (
            "严重",
            FINDING.title,
            "涉及",
            "位置",
            "证据",
            "原因",
            "下一步",
            "置信度",
            "中",
            "参考",
            "警告",
            "提示",
        )
        assert in_order(words[words.rindex("严重") :], *labels)
        assert "CRITICAL" not in words
    assert "没有回答" in render.text(model.Steps((), silent([3])), 100)


def test_silent_ranks_are_named_once_per_reason() -> None:
    some = (
        *silent(range(0, 300, 2)),
        model.Silent(None, 77, "permission denied"),
        model.Silent(5, 1005, "the GIL is held", "wait"),
    )
    text, page = checked(model.Steps((), some))
    for words in (text, page.words):
        assert words.count("did not answer in 10 s") == 1
        assert "ranks 0-298, every 2nd (150)" in words
        assert "looks from outside" in words
        assert in_order(words, "pid 77", "permission denied")
        assert in_order(words, "rank 5, pid 1005", "the GIL is held", "wait")


def test_one_silent_rank_keeps_its_pid() -> None:
    text, _ = checked(model.Steps((), silent([3])))
    assert "process 1003 did not answer" in text


def test_failure_is_said() -> None:
    text, page = checked(Verdicts((), why=Problem("the driver is gone")))
    assert "nothing could be measured: the driver is gone" in text
    assert "nothing could be measured: the driver is gone" in page.words


def test_an_unknown_result_is_shown_as_its_fields() -> None:
    odd = Verdicts((), nested={"a": [1, 2.5, {"b": HOSTILE}], "c": object(), "d": memory(1).ranks[0].children})
    text, page = checked(odd)
    for words in (text, page.words):
        assert in_order(words, "answer", "42", "a[1]: 2.5", "a[2].b: <img", "c: object", "d[0].pid: 9000")
        assert "it was never there" in words
        assert "object object" not in words, "no repr of what we do not know"


def test_a_class_that_extends_a_known_one_uses_its_view() -> None:
    class More(model.Stacks):
        pass

    assert document.view_of(More) is document.view_of(model.Stacks)


# --- cost ------------------------------------------------------------------------------------------------------------


def test_text_imports_neither_jinja_nor_what_is_slow_in_rich() -> None:
    code = (
        "import sys; from jupyter_traindbg import render, model; render.text(model.Stacks(()), 80); "
        "print([m for m in sys.modules if m.split('.')[0] in ('jinja2', 'IPython', 'pygments', 'markdown_it', 'numpy', 'torch')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_the_renderer_fits_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    renderer: Callable[[Any], dict[str, Any]] = render.mimebundle
    monkeypatch.setattr(model.base, "_renderer", renderer)
    assert str(stacks(2)) == render.text(stacks(2))
    assert set(stacks(2)._repr_mimebundle_()) == {"text/plain", "text/html"}
