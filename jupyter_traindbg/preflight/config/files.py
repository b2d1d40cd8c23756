"""YAML, JSON, TOML and shell scripts as flat `Entry` lists. Files are data: nothing in them is executed, imported or fetched.

A file is read whole; one of more than `LARGEST` bytes or `MOST` values is no configuration. Costs about 1 ms for 10 KiB.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from ...errors import BadConfig
from ...language import pgettext, text
from .entries import Entry

__all__ = ["SUFFIXES", "is_config", "read"]

LARGEST = 4 * 2**20
MOST = 50_000
DEEPEST = 60
STRUCTURED = (".yaml", ".yml", ".json", ".toml")
SCRIPTS = (".sh", ".bash", ".slurm", ".sbatch", ".sub", ".job")
MERGE = "tag:yaml.org,2002:merge"
SUFFIXES = (*STRUCTURED, *SCRIPTS)


def is_config(words: str) -> bool:
    """Whether this is spelt like the name of a configuration file."""
    return words.lower().endswith(SUFFIXES)


def text_of(path: Path) -> str:
    """The content of a file of reasonable size, UTF-8. Never waits, for whoever writes into a pipe. Raises `BadConfig`."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb", buffering=0) as f:
            if not stat.S_ISREG(os.fstat(f.fileno()).st_mode):
                raise BadConfig(text("{path} is a pipe or a device", path=path), text("save it as a file"))
            raw = _read(f)
    except IsADirectoryError:
        raise BadConfig(text("{path} is a directory", path=path), text("name the configuration file in it")) from None
    except OSError as e:
        raise BadConfig(
            text("{path} cannot be read: {why}", path=path, why=e.strerror or e),
            text("check the name, and who may read it"),
        ) from None
    if len(raw) > LARGEST:
        raise BadConfig(
            text("{path} has more than {most} MiB: that is no configuration", path=path, most=LARGEST // 2**20),
            "",
        )
    try:
        content = raw.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        raise BadConfig(
            text("{path} is no UTF-8 text (byte {at})", path=path, at=e.start), text("save it as UTF-8")
        ) from None
    if "\0" in content:
        raise BadConfig(
            text("{path} is a binary file", path=path), text("name a YAML, JSON or TOML file, or a shell script")
        )
    return content


def _read(f: IO[bytes]) -> bytes:
    """The first `LARGEST` bytes, and one more if there are more: files of /proc have no size."""
    parts = []
    left = LARGEST + 1
    while left and (part := f.read(left)):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def read(path: Path) -> list[Entry]:
    """The values of a structured file, by its suffix. Raises `BadConfig`, which names the line."""
    source, name = text_of(path), path.name
    suffix = path.suffix.lower()
    if suffix == ".json":
        entries = _json(source, name)
    elif suffix == ".toml":
        entries = _toml(source, name)
    else:
        entries = _yaml(source, name)
    return entries


# --- YAML ------------------------------------------------------------------------------------------------------------


def _yaml(source: str, name: str) -> list[Entry]:
    import yaml

    try:
        documents = list(yaml.compose_all(source, Loader=yaml.SafeLoader))
    except yaml.MarkedYAMLError as e:
        mark = e.problem_mark or e.context_mark
        at = f"{name}:{mark.line + 1}" if mark else name
        raise BadConfig(text("{name} is no YAML: {why}", name=at, why=e.problem or e.context)) from None
    except (yaml.YAMLError, RecursionError) as e:
        raise BadConfig(text("{name} is no YAML: {why}", name=name, why=" ".join(str(e).split())[:200])) from None
    entries: list[Entry] = []
    for node in documents:
        if node is None:
            continue
        if not isinstance(node, yaml.MappingNode):
            only = text("a list") if isinstance(node, yaml.SequenceNode) else pgettext("in a file", "text")
            at = f"{name}:{node.start_mark.line + 1}"
            raise BadConfig(text("{name} holds no keys, only {only}", name=at, only=only))
        _YamlWalk(name, entries).walk(node, "", ())
    return entries


class _YamlWalk:
    """Mappings become dotted keys; a list is the value of its key. Anchors are followed, which makes small files large: all is counted."""

    def __init__(self, name: str, entries: list[Entry]) -> None:
        import yaml

        self.name = name
        self.entries = entries
        self.loader = yaml.SafeLoader("")
        self.seen = 0

    def walk(self, node: Any, prefix: str, above: tuple[int, ...]) -> None:
        import yaml

        at = f"{self.name}:{node.start_mark.line + 1}"
        if id(node) in above or len(above) > DEEPEST:
            raise BadConfig(text("{at} contains itself, or is too deep", at=at))
        within = (*above, id(node))
        merged: list[Any] = []
        for key, value in node.value:
            if key.tag == MERGE:
                merged += value.value if isinstance(value, yaml.SequenceNode) else [value]
        for other in (
            inner for value in merged for inner in (value.value if isinstance(value, yaml.SequenceNode) else [value])
        ):
            self.count()
            if not isinstance(other, yaml.MappingNode):
                raise BadConfig(text("{at} merges (<<) something that has no keys", at=at))
            self.walk(other, prefix, within)  # first: what stands here itself comes later, and counts
        for key, value in node.value:
            self.count()
            if key.tag == MERGE:
                continue
            path = f"{prefix}{key.value}" if isinstance(key.value, str) else f"{prefix}?"
            if isinstance(value, yaml.MappingNode):
                self.walk(value, path + ".", within)
            else:
                self.entries.append(Entry(path, _yaml_value(self.loader, value), self.name, key.start_mark.line + 1))

    def count(self) -> None:
        self.seen += 1
        if self.seen > MOST:
            raise BadConfig(
                text("{name} has more than {most:,} values: that is no configuration", name=self.name, most=MOST), ""
            )


def _yaml_value(loader: Any, node: Any) -> Any:
    """A scalar by YAML's rules; of a list only its scalars, as nothing that we look at is deeper. An unknown tag is text."""
    import yaml

    if isinstance(node, yaml.SequenceNode):
        return [_yaml_value(loader, item) for item in node.value[:1000] if isinstance(item, yaml.ScalarNode)]
    if not isinstance(node, yaml.ScalarNode):
        return None
    try:
        return loader.construct_object(node)
    except (yaml.YAMLError, ValueError):
        return node.value


# --- JSON, TOML --------------------------------------------------------------------------------------------------------


def _json(source: str, name: str) -> list[Entry]:
    try:
        content = json.loads(source)
    except json.JSONDecodeError as e:
        raise BadConfig(
            text("{name} is no JSON: {why} (column {column})", name=f"{name}:{e.lineno}", why=e.msg, column=e.colno)
        ) from None
    except (RecursionError, ValueError) as e:  # ValueError: a number of thousands of digits
        raise BadConfig(text("{name} is no JSON: {why}", name=name, why=str(e).partition(";")[0][:200])) from None
    if not isinstance(content, dict):
        raise BadConfig(
            text(
                "{name} holds no keys, only {only}",
                name=name,
                only=text("a list") if isinstance(content, list) else json.dumps(content)[:40],
            )
        )
    return list(_flat(content, "", name, _lines(source)))


def _toml(source: str, name: str) -> list[Entry]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        content = tomllib.loads(source)
    except (tomllib.TOMLDecodeError, RecursionError) as e:
        match = re.search(r"\(at line (\d+), column \d+\)", str(e))
        at = f"{name}:{match[1]}" if match else name
        raise BadConfig(
            text("{name} is no TOML: {why}", name=at, why=re.sub(r" *[(]at .*", "", str(e))[:200])
        ) from None
    return list(_flat(content, "", name, _lines(source)))


def _flat(
    content: dict[str, Any], prefix: str, name: str, lines: dict[str, int | None], depth: int = 0
) -> Iterator[Entry]:
    if depth > DEEPEST:
        raise BadConfig(text("{name} is too deep: {where}", name=name, where=prefix[:80]))
    for key, value in content.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.", name, lines, depth + 1)
        else:
            yield Entry(f"{prefix}{key}", value, name, lines.get(str(key)))


def _lines(source: str) -> dict[str, int | None]:
    """The line of every key that stands there once: neither parser tells, and a key may stand in several tables."""
    found: dict[str, int | None] = {}
    for number, line in enumerate(source.splitlines(), 1):
        for match in re.finditer(r"[\"']?([\w.-]+)[\"']?[ \t]*[:=]", line):
            found[match[1]] = None if match[1] in found else number
    return found
