"""Bring the catalogues of locale/ up to date with what the code says, and compile them. --check only says what is not as it should be.

A message that is new waits for its translation with an empty ``msgstr``; one that no code says any more is gone. What the front end says
is in the same catalogues, and, as JSON, where its bundles take it from.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po, write_po

REPO = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPO))

from hatch_build import LOCALE, compile_catalogues  # noqa: E402 - of this checkout
from jupyter_traindbg import tables  # noqa: E402
from jupyter_traindbg.model.waits import ENGLISH  # noqa: E402 - of this checkout, installed or not

PACKAGE = REPO / "jupyter_traindbg"
FRONT_END = REPO / "labextension" / "src"
SPOKEN = FRONT_END / "common" / "language.ts"
"""Where the functions of the front end are, which are no calls of them."""
CALLS = {"text": 1, "later": 1, "counted": 2, "later_counted": 2, "pgettext": 2, "said": 1}
"""The functions that say a message (of language.py; `said` is the agent's), and how many of their arguments are it (and its context)."""
_IN_TYPESCRIPT = re.compile(r"(?<![.\w$])(text|counted|pgettext)\s*\(\s*")
_LITERAL = re.compile(r"""('(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")\s*([,)])\s*""")
_COMMENT = re.compile(r"^[ \t]*(?://|/?\*).*$", re.MULTILINE)
HEAD = """\
# What traindbg says, in {name}. scripts/messages.py puts the messages here; their translations are written here.
msgid ""
msgstr ""
"Language: {language}\\n"
"Plural-Forms: {plural}\\n"
"MIME-Version: 1.0\\n"
"Content-Type: text/plain; charset=utf-8\\n"
"Content-Transfer-Encoding: 8bit\\n"

"""


@dataclass(frozen=True)
class Said:
    """A message, its singular first where it has a plural, and the names of what is filled in; None where that is known later."""

    file: str
    line: int
    words: tuple[str, ...]
    context: str | None
    values: frozenset[str] | None

    @property
    def id(self) -> str | tuple[str, ...]:
        return self.words if len(self.words) > 1 else self.words[0]


def said() -> Iterator[Said]:
    """All that the code says, in the order of the files."""
    for path in sorted(PACKAGE.rglob("*.py")):
        file, tree = str(path.relative_to(REPO)), ast.parse(path.read_text(encoding="utf-8"))
        calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call)]
        for call in sorted(calls, key=lambda n: (n.lineno, n.col_offset)):
            name = call.func.id if isinstance(call.func, ast.Name) else ""
            words = _literals(call, CALLS.get(name, 0))
            if words and name == "pgettext":
                yield Said(file, call.lineno, words[1:], words[0], _values(call, name))
            elif words:
                yield Said(file, call.lineno, words, None, _values(call, name))
    yield from _waits()
    yield from _tables()
    for path in sorted([*FRONT_END.rglob("*.ts"), *FRONT_END.rglob("*.tsx")]):
        if path != SPOKEN and not path.name.endswith((".spec.ts", ".spec.tsx")):
            yield from said_in_typescript(path.read_text(encoding="utf-8"), str(path.relative_to(REPO)))


def said_in_typescript(code: str, file: str) -> Iterator[Said]:
    """What `code` says. Raises `ValueError` where a call does not have its words in it, as plain literals: nobody could translate it."""
    code = _COMMENT.sub("", code)
    for call in _IN_TYPESCRIPT.finditer(code):
        name, line = call[1], code.count("\n", 0, call.start()) + 1
        words, at = [], call.end()
        for _ in range(CALLS[name]):
            literal = _LITERAL.match(code, at)
            if literal is None:
                raise ValueError(f"{file}:{line}: {name}() is not called with literal words")
            words.append(ast.literal_eval(literal[1]))
            at = literal.end()
        context = words.pop(0) if name == "pgettext" else None
        yield Said(file, line, tuple(words), context, None)


def _literals(call: ast.Call, count: int) -> tuple[str, ...]:
    """Nothing where the words are not here, but come from another one's `later`."""
    words = [a.value for a in call.args[:count] if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    return tuple(words) if len(words) == count else ()


def _values(call: ast.Call, name: str) -> frozenset[str] | None:
    names = [keyword.arg for keyword in call.keywords]
    if name.startswith("later") or None in names:
        return None
    return frozenset([n for n in names if n is not None] + ["n"] * (name == "counted"))


def _waits() -> Iterator[Said]:
    """The words for waits, which lie where nothing of ours may be imported."""
    for (kind, _), words in ENGLISH.items():
        for one in [words] if isinstance(words, str) else words:
            if one.replace("{on}", ""):
                context = "a thread" if kind == "idle" else "a wait"
                yield Said("jupyter_traindbg/model/waits.py", 0, (one,), context, frozenset(("op", "on")))


def _tables() -> Iterator[Said]:
    """What a row of each table of SQL is, which its docstring says."""
    for name in tables.names():
        words = (tables.load(name).__doc__ or "").strip().removesuffix(".")
        yield Said(f"jupyter_traindbg/tables/{name}.py", 1, (words,), None, frozenset())


def updated(path: Path) -> Catalog:
    """The catalogue at `path`, with what is said now and nothing else; translations are kept."""
    with path.open("rb") as f:
        known = read_po(f)
    new = Catalog(locale=path.parents[1].name)
    for one in sorted(said(), key=lambda one: one.file):
        old = known.get(one.id, one.context)
        new.add(one.id, old.string if old is not None else None, locations=[(one.file, 0)], context=one.context)
    return new


def written(catalogue: Catalog) -> bytes:
    """As the file has it: each message below the files that say it."""
    buffer = io.BytesIO()
    write_po(buffer, catalogue, width=140, omit_header=True, include_lineno=False)
    name = catalogue.locale.get_display_name("en") if catalogue.locale else ""
    head = HEAD.format(name=name, language=catalogue.locale_identifier, plural=catalogue.plural_forms)
    return head.encode() + buffer.getvalue()


def untranslated(catalogue: Catalog) -> list[str]:
    """The messages that are not."""
    return [
        str(m.id) for m in catalogue if m.id and not (m.string if isinstance(m.string, str) else any(m.string or ()))
    ]


def for_front_end(catalogue: Catalog) -> bytes:
    """What the front end says, as JSON: each message (behind its context, where it has one) and its translation."""
    front = f"{FRONT_END.relative_to(REPO)}/"
    words = {}
    for m in catalogue:
        if m.string and any(file.startswith(front) for file, _ in m.locations):
            key, said_so = (s if isinstance(s, str) else s[0] for s in (m.id, m.string))
            words[f"{m.context}\x04{key}" if m.context else key] = said_so
    return (json.dumps(words, ensure_ascii=False, indent=2, sort_keys=True) + "\n").encode()


def files_of(path: Path, catalogue: Catalog) -> dict[Path, bytes]:
    """What is written of the catalogue at `path`."""
    front = FRONT_END / "common" / f"catalogue.{path.parents[1].name}.json"
    return {path: written(catalogue), front: for_front_end(catalogue)}


def main(*, check: bool) -> int:
    """Exit status 1: there is something to do, by this program or by a person."""
    left = False
    for path in sorted(LOCALE.glob("*/LC_MESSAGES/*.po")):
        catalogue = updated(path)
        for message in untranslated(catalogue):
            print(f"{path.relative_to(REPO)}: no translation of {message!r}")
            left = True
        for file, content in files_of(path, catalogue).items():
            if not file.exists() or content != file.read_bytes():
                print(f"{file.relative_to(REPO)} {'is stale; run scripts/messages.py' if check else 'written'}")
                if check:
                    left = True
                else:
                    file.write_bytes(content)
    if not check:
        compile_catalogues()
    return int(left)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    sys.exit(main(check=parser.parse_args().check))
