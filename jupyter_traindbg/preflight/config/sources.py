"""What was named on the command line, read: configuration files, a command, Hydra's overrides, and the files that these name in turn."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...errors import BadConfig, UsageError
from ...language import text
from . import command, files
from .entries import Entry

__all__ = ["Sources", "read"]

NAMES_A_FILE = {
    "deepspeed",
    "deepspeed_config",
    "deepspeed_config_file",
    "config",
    "config_file",
    "config_path",
    "config_yaml",
    "fsdp_config",
}
"""Options whose value may be the name of another configuration file."""
MOST_FILES = 20
OVERRIDE = re.compile(r"\+{0,2}[A-Za-z_][\w./@-]*=.*", re.DOTALL)
INTERPOLATION = re.compile(r"\$\{([A-Za-z_][\w.]*)\}")


@dataclass
class Sources:
    """All that was read; of two entries for one thing the later one counts, and what a command says comes after what files say."""

    entries: list[Entry] = field(default_factory=list)
    environ: dict[str, Entry] = field(default_factory=dict)
    programs: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    folder: Path = field(default_factory=Path)
    """Of the first file: what other files are named relative to, besides the working directory."""

    def value(self, path: str) -> object:
        """The last value at this path; None where there is none."""
        return next((e.value for e in reversed(self.entries) if e.path == path), None)


def read(words: Sequence[str], environ: Mapping[str, str]) -> Sources:
    """Read everything that `words` name: files by their suffix, then overrides (``a.b=1``), then a command line.

    Raises `BadConfig` for a file that is broken (with its line), `UsageError` for one that is not there.
    """
    found = Sources()
    rest = list(words)
    overrides: list[str] = []
    while rest and (_is_file(rest[0]) or _is_override(rest[0])):
        word = rest.pop(0)
        if _is_override(word):
            overrides.append(word)
        elif not os.path.exists(word):
            raise UsageError(
                text("there is no file {target}", target=word), text("check the name; a command line goes after ` -- `")
            )
        else:
            if not found.files:
                found.folder = Path(word).parent
            _file(found, Path(word), environ)
    _command(found, command.of_overrides(overrides), environ)
    if rest:
        said = command.of_words(rest)
        if len(rest) == 1 and not said.entries and rest[0] not in command.PROGRAMS:
            raise UsageError(
                text("{word!r} is no configuration, and no command line with options", word=rest[0]),
                text("name a YAML, JSON, TOML or shell file, or give the command that starts the run after ` -- `"),
            )
        _command(found, said, environ)
    found.entries = _resolved(found.entries)
    return found


def _is_file(word: str) -> bool:
    """Whether it is named to be read; a folder of the same name does not hide a launcher, and a program is the beginning of a command."""
    there = os.path.exists(word) and word not in command.PROGRAMS and not word.endswith(".py")
    return files.is_config(word) or there


def _is_override(word: str) -> bool:
    """Hydra's ``a.b=1``; ``NAME=value`` in capitals is a variable for the command that follows."""
    key = word.partition("=")[0]
    return OVERRIDE.fullmatch(word) is not None and not key.isupper() and not key.startswith("-")


def _file(found: Sources, path: Path, environ: Mapping[str, str]) -> None:
    if str(path) in found.files:
        return
    if len(found.files) >= MOST_FILES:
        raise BadConfig(
            text(
                "more than {most} configuration files, the last of them {name}",
                most=MOST_FILES,
                name=path.name,
            ),
            text("name fewer"),
        )
    found.files.append(str(path))
    suffix = path.suffix.lower()
    if suffix in files.SCRIPTS or (suffix not in files.STRUCTURED and _has_shebang(path)):
        _command(found, command.of_script(path, environ), environ)
        return
    entries = files.read(path)
    if not entries:
        found.notes.append(text("{name} is empty", name=path.name))
    _named_files(found, entries, environ)
    found.entries += entries


def _has_shebang(path: Path) -> bool:
    return files.text_of(path).startswith("#!")


def _command(found: Sources, said: command.Command, environ: Mapping[str, str]) -> None:
    found.programs += said.programs
    _named_files(found, said.entries, environ)
    if "accelerate" in said.programs and not any(e.last == "config_file" for e in said.entries):
        _accelerates_own(found, environ)
    for word in said.words:  # `llamafactory-cli train run.yaml`, `bash train.sh`
        path = _existing(found, word) if files.is_config(word) else None
        if path is not None:
            _file(found, path, environ)
        elif files.is_config(word):
            found.notes.append(_not_there(word))
    found.entries += said.entries
    found.environ.update(said.environ)


def _accelerates_own(found: Sources, environ: Mapping[str, str]) -> None:
    """What `accelerate config` wrote counts where a command names no file."""
    home = environ.get("HF_HOME") or os.path.join(
        environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "huggingface"
    )
    path = Path(home, "accelerate", "default_config.yaml")
    if path.is_file() and not any(e.path == "compute_environment" for e in found.entries):
        _file(found, path, environ)


def _named_files(found: Sources, entries: Sequence[Entry], environ: Mapping[str, str]) -> None:
    for entry in entries:
        if entry.last in NAMES_A_FILE and isinstance(entry.value, str) and files.is_config(entry.value):
            path = _existing(found, entry.value)
            if path is None:
                found.notes.append(_not_there(entry.value))
            else:
                _file(found, path, environ)


def _existing(found: Sources, name: str) -> Path | None:
    """As the program would find it (from here), else beside the file that names it, or above that."""
    candidates = (os.path.expanduser(name), os.path.join(found.folder, name), os.path.join(found.folder.parent, name))
    return next((Path(path) for path in candidates if os.path.isfile(path)), None)


def _not_there(name: str) -> str:
    return text("{name} is named and is not here: what it says is not known", name=name)


def _resolved(entries: Sequence[Entry]) -> list[Entry]:
    """OmegaConf's plain interpolations, ``${data.max_length}``, replaced by what is said there; others stay and say nothing."""
    by_path = {entry.path: entry.value for entry in entries}

    def value(of: object, depth: int = 0) -> object:
        match = INTERPOLATION.fullmatch(of) if isinstance(of, str) else None
        if match is None or depth > 5 or match[1].lower() not in by_path:
            return of
        return value(by_path[match[1].lower()], depth + 1)

    return [dataclasses.replace(e, value=value(e.value)) if isinstance(e.value, str) else e for e in entries]
