"""What is said has a translation, of what is said now; and both fill in what they are given."""

from __future__ import annotations

import ast
import json
import re
import runpy
import string
import time
from pathlib import Path
from typing import Any

import pytest
from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po
from support import REPO

from jupyter_traindbg import cli, language
from jupyter_traindbg.agent.saying import PLACE
from jupyter_traindbg.language import counted, either, later, later_counted, pgettext, speaking, text
from jupyter_traindbg.tasks import Task, each

CATALOGUES = sorted((REPO / "jupyter_traindbg" / "locale").glob("*/LC_MESSAGES/*.po"))
IDEOGRAPHS = re.compile("[\u3400-\u9fff]")
MAY_HAVE_THEM = {"diagnose/log/facts/data_stage.py"}
"""What people write into logs in Chinese is searched for there."""


@pytest.fixture(scope="module")
def messages() -> dict[str, Any]:
    return runpy.run_path(str(REPO / "scripts" / "messages.py"))


def test_each_message_has_its_translation_and_no_other_is_kept(messages: dict[str, Any]) -> None:
    assert [path.parts[-3] for path in CATALOGUES] == ["zh"]
    for path in CATALOGUES:
        catalogue: Catalog = messages["updated"](path)
        assert messages["untranslated"](catalogue) == []
        for file, content in messages["files_of"](path, catalogue).items():
            assert content == file.read_bytes(), f"{file}: run scripts/messages.py"


def test_both_languages_have_places_for_what_is_filled_in_and_for_nothing_else(messages: dict[str, Any]) -> None:
    (path,) = CATALOGUES
    with path.open("rb") as f:
        catalogue = read_po(f)
    wrong = []
    for one in messages["said"]():
        found = catalogue.get(one.id, one.context)
        assert found is not None
        translated = [found.string] if isinstance(found.string, str) else list(found.string)
        english, other = (frozenset().union(*map(places, words)) for words in (one.words, translated))
        given = english if one.values is None else one.values
        if not english | other and not given:
            continue
        if (english | other) - given or (one.values is not None and given - english - other - {"n", "op", "on"}):
            wrong.append((one.file, one.line, one.words, translated))
    assert wrong == []


def places(words: str) -> frozenset[str]:
    return frozenset(
        re.split(r"[.\[]", name)[0] for _, name, _, _ in string.Formatter().parse(words) if name is not None
    )


def test_a_message_stands_where_it_is_said(messages: dict[str, Any]) -> None:
    """Else nobody could find it: ``text(f"...")`` would be translated never."""
    for path in sorted((REPO / "jupyter_traindbg").rglob("*.py")):
        names = {"said"} if "agent" in path.parts else messages["CALLS"]  # to an agent nothing else is one of ours
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in names:
                assert not any(isinstance(part, ast.JoinedStr) for part in call.args), (path, call.lineno)


def test_what_an_agent_says_has_names_in_its_places_and_no_formats(messages: dict[str, Any]) -> None:
    """Whoever asks fills them in by `saying.filled`, in each language."""
    (path,) = CATALOGUES
    with path.open("rb") as f:
        catalogue = read_po(f)
    of_agent = [one for one in messages["said"]() if one.file.startswith("jupyter_traindbg/agent/")]
    assert len(of_agent) > 200
    for one in of_agent:
        found = catalogue.get(one.id)
        assert found is not None
        for words in (one.words[0], found.string):
            assert PLACE.sub("", words).count("{") == 0, (one.file, one.line, words)


def test_what_typescript_says(messages: dict[str, Any]) -> None:
    code = """// text(this) is about text('nothing')
        /** Nor is text(that). */
        label: text('Attach'), help: text("the job's \\u2026 {place}", { place }),
        const words = counted(
          '{n} job',
          '{n} jobs',
          n
        ) + pgettext('a place', 'at') + response.text() + context(1);
    """
    said = list(messages["said_in_typescript"](code, "x.ts"))
    assert [(one.line, one.words, one.context) for one in said] == [
        (3, ("Attach",), None),
        (3, ("the job's \u2026 {place}",), None),
        (4, ("{n} job", "{n} jobs"), None),
        (8, ("at",), "a place"),
    ]


@pytest.mark.parametrize(
    "call",
    [
        "text(words)",
        "text(`step ${n}`)",
        "text('a' + 'b')",
        "counted('one', many, n)",
        "pgettext(context, 'at')",
        "text(\n  busy ? 'a' : 'b')",
        "text()",
    ],
)
def test_what_typescript_says_without_its_words_is_an_error(messages: dict[str, Any], call: str) -> None:
    with pytest.raises(ValueError, match=r"^panel/x\.ts:2: "):
        list(messages["said_in_typescript"](f"import y;\nreturn {call};", "panel/x.ts"))


def test_the_front_end_is_given_what_it_says_and_nothing_else(messages: dict[str, Any]) -> None:
    catalogue = Catalog(locale="zh")
    front = [("labextension/src/x.ts", 0)]
    catalogue.add("both", "两者", locations=[("jupyter_traindbg/x.py", 0), *front])
    catalogue.add("at", "位置", locations=front, context="a place")
    catalogue.add(("{n} job", "{n} jobs"), ("{n} 个任务",), locations=front)
    catalogue.add("python", "别处", locations=[("jupyter_traindbg/x.py", 0)])
    catalogue.add("not yet", locations=front)
    assert messages["untranslated"](catalogue) == ["not yet"]
    words = {"both": "两者", "a place\x04at": "位置", "{n} job": "{n} 个任务"}
    assert json.loads(messages["for_front_end"](catalogue)) == words
    assert list(json.loads(messages["for_front_end"](catalogue))) == sorted(words)


@pytest.mark.parametrize("name", ["traindbg.po", "catalogue.zh.json"])
def test_a_stale_file_is_told_and_left_as_it_is(
    messages: dict[str, Any],
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (path,) = CATALOGUES
    files = messages["files_of"](path, messages["updated"](path))
    assert name in [file.name for file in files]
    played = {tmp_path / file.name: content for file, content in files.items()}
    for file, content in played.items():
        file.write_bytes(b"old" if file.name == name else content)
    inside = messages["main"].__globals__
    monkeypatch.setitem(inside, "files_of", lambda *_: played)
    monkeypatch.setitem(inside, "REPO", tmp_path)
    monkeypatch.setitem(inside, "updated", lambda _: Catalog(locale="zh"))
    monkeypatch.setitem(inside, "LOCALE", tmp_path)
    place = tmp_path / "zh" / "LC_MESSAGES" / "traindbg.po"
    place.parent.mkdir(parents=True)
    place.touch()
    assert messages["main"](check=True) == 1
    assert capsys.readouterr().out == f"{name} is stale; run scripts/messages.py\n"
    assert (tmp_path / name).read_bytes() == b"old"


def test_no_other_language_is_in_the_code() -> None:
    package = REPO / "jupyter_traindbg"
    found = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if IDEOGRAPHS.search(path.read_text(encoding="utf-8"))
    }
    assert found == MAY_HAVE_THEM


def test_words_in_the_readers_language(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINDBG_LANG", "zh_CN.UTF-8")
    assert text("no rank") == "没有 rank"
    assert text("rank {rank} holds {what}", rank=3, what="1 GiB") == "rank 3 占用 1 GiB"
    assert [counted("{n:,} file", "{n:,} files", n) for n in (1, 2000)] == ["1 个文件", "2,000 个文件"]
    assert pgettext("unit", "h") == "小时"
    assert text("nobody has translated {this}", this="{that}") == "nobody has translated {that}"
    assert either("data", "数据") == "数据"
    assert counted(*later_counted("{n:,} row", "{n:,} rows"), 2) == "2 行"
    assert text(later("frozen")) == "冻结"
    assert text("") == ""  # by which gettext finds the head of a catalogue
    monkeypatch.setenv("TRAINDBG_LANG", "de")
    assert text("no rank") == "no rank"
    assert [counted("{n:,} file", "{n:,} files", n) for n in (1, 2000)] == ["1 file", "2,000 files"]


def test_without_its_catalogue_a_language_is_english(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(language, "LOCALE", tmp_path)
    language._catalogue.cache_clear()
    try:
        with speaking("zh"):
            assert text("no rank") == "no rank"
    finally:
        language._catalogue.cache_clear()


def test_a_thread_speaks_the_language_of_whoever_started_it() -> None:
    with speaking("zh"):
        task = Task(lambda: text("no rank"), "words")
        answers = each(["a", "b"], lambda _: text("no rank"), 5.0)
    assert task.result(time.monotonic() + 30) == "没有 rank"
    assert [words for _, words in answers] == ["没有 rank"] * 2


def test_what_programs_read_is_english(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "job.log").write_text("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n")
    monkeypatch.setenv("TRAINDBG_LANG", "zh")
    cli.main(["diagnose", str(tmp_path / "job.log"), "--json"])
    assert not IDEOGRAPHS.search(capsys.readouterr().out)
    cli.main(["diagnose", str(tmp_path / "job.log")])
    assert IDEOGRAPHS.search(capsys.readouterr().out)
