"""Ask all ranks anything in SQL (DuckDB's): steps, stacks, parameters, memory ...; without a query, the tables and columns there are."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence

from .. import tables
from ..errors import UsageError
from ..language import text
from ..model import Result, parse_target
from ..questions import sql
from .base import Session
from .base import split as as_in_a_shell
from .parser import TARGET, completed_by

EXAMPLES = (
    ("", "which tables and columns there are"),
    (
        "'select rank, avg(data_wait_s) from steps group by rank'",
        "of the job attached to, else of the only one there is",
    ),
    ("4711 'from ranks'", "of this process: everything in one table"),
)
CELL = True
"""What follows in a cell is the last of its words."""
CSV = True
_OPTION = re.compile(r"\s*(--timeout(?:\s+|=)\S+|(?:--help|-h|--verbose|-v)(?!\S))")
_WORD = re.compile(r"\s*(\S+)\s*")
_QUOTED = re.compile(r"""\s*(["'])(?P<query>.*)\1\s*""", re.DOTALL)
_BEHIND_A_TABLE = re.compile(r"\b(?:from|join|describe|summarize|table)\s+(?:\w+\s*,\s*)*\w*$", re.IGNORECASE)
_NAME = re.compile(r"\w*$")
_NO_NAME = re.compile(r"^\s*\S*$|\s-\S*$")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    words = parser.add_argument(
        "words",
        nargs="*",
        help="the job, as for `attach` (none: the job attached to, else the only candidate there is), then the query; without a query "
        "the tables and columns are listed",
    )
    completed_by(words, TARGET)


def split(line: str) -> list[str]:
    """The words of a magic's line: options, a target, and all the rest as it is, since quotes and brackets are the query's."""
    words: list[str] = []
    while option := _OPTION.match(line):
        words += as_in_a_shell(option[1])
        line = line[option.end() :]
    first = _WORD.match(line)
    if first is not None and parse_target(first[1]) is not None:
        words.append(first[1])
        line = line[first.end() :]
    quoted = _QUOTED.fullmatch(line)
    query = quoted["query"] if quoted is not None else line.strip()
    return [*words, query] if query.strip("; ") else words


def run(args: argparse.Namespace, session: Session) -> Result:
    target, query = _told(args.words)
    if not query:
        return sql.listed()
    with session.job(target, args.timeout) as job:
        return job.sql(query, timeout=args.timeout)


def _told(words: Sequence[str]) -> tuple[str | None, str]:
    """The target, where one was named, and the query. Whatever has a slash in it could be the path of a socket; a division is none."""
    alone = len(words) == 1 and re.search(r"\s", words[0].strip())
    if words and not alone and parse_target(words[0]) is not None:
        return words[0], " ".join(words[1:])
    if len(words) == 1 and not re.search(r"\s|;", words[0].strip()):
        raise UsageError(
            text("{word!r} is neither a target nor a query", word=words[0]), text("`%sql` lists tables and columns")
        )
    return None, " ".join(words)


def offers(typed: str, behind: str = "") -> tuple[str, list[tuple[str, str]]]:
    """The name that is being typed in a query, and what it may become: behind FROM and JOIN a table, elsewhere a column of the tables that
    the query names (of all, where it names none) or a table. Nothing for the first word, which may be a target, or for an option.
    """
    if _NO_NAME.search(typed):
        return "", []
    match = _NAME.search(typed)
    fragment = match[0] if match is not None else ""
    others = f"{typed[: len(typed) - len(fragment)]} {behind}"
    named = [name for name in tables.names() if re.search(rf"\b{name}\b", others)]
    found: list[tuple[str, str]] = []
    if not _BEHIND_A_TABLE.search(typed):
        columns = (column.name for name in named or tables.names() for column in tables.columns(name))
        found += [(name, "column") for name in dict.fromkeys(columns)]
    found += [(name, "table") for name in tables.names()]
    return fragment, [one for one in found if one[0].startswith(fragment.lower())]
