"""Command lines and the shell scripts that hold them, as `Entry` lists. Nothing is executed: variables are replaced by what the script
assigns them (or the environment has), and what only a shell could tell (``$(...)``, globs) stays as it is and is no number.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ...errors import BadConfig
from ...language import text
from .entries import Entry
from .files import text_of

__all__ = ["PROGRAMS", "Command", "of_overrides", "of_script", "of_words"]

ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
OVERRIDE = re.compile(r"\+{0,2}([A-Za-z_][\w./@-]*)=(.*)", re.DOTALL)
VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?::?[-=]([^{}]*))?\})")
LAUNCHERS = {
    "torchrun": "torchrun",
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "deepspeed": "deepspeed_launcher",
    "accelerate": "accelerate_launcher",
    "srun": "slurm",
    "sbatch": "slurm",
}
PROGRAMS = (
    "python",
    "python3",
    *LAUNCHERS,
    "ray",
    "llamafactory-cli",
    "axolotl",
    "swift",
    "vllm",
    "trl",
    "verl",
    "openrlhf",
)
BEFORE_ANYTHING = {"sudo", "nohup", "time", "exec", "env", "command", "nice", "numactl"}
REDIRECTION = re.compile(r"\d*[<>]")
LONGEST = 20_000
LINES_OF_A_COMMAND = 200
END_OF_COMMAND = {"|", "||", "&&", ";", "&", "|&"}
ARRAY = re.compile(r"(\w+)(\+?)=\((.*)", re.DOTALL)
HERE_DOCUMENT = re.compile(
    r"read -r -d '' (\w+) <<-?\s*['\"]?(\w+)['\"]?\n(.*?)\n\s*\2[ \t]*$", re.DOTALL | re.MULTILINE
)
WHOLE_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?:\[[@*]\])?\})")
SLURM = re.compile(r"^#SBATCH\s+(--[^\s=]+)[=\s]+(\S+)", re.MULTILINE)


@dataclass
class Command:
    """What a command line says: its options (a launcher's under the launcher's name), and variables set for it."""

    entries: list[Entry] = field(default_factory=list)
    environ: dict[str, Entry] = field(default_factory=dict)
    programs: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    """The program's arguments that are no options: often names of configuration files."""


def of_words(words: Sequence[str], file: str = "command line", line: int | None = None) -> Command:
    """The command line `words`, split already."""
    command = Command()
    rest = list(words)
    while rest:
        assigned = ASSIGNMENT.fullmatch(rest[0])
        if assigned:
            command.environ[assigned[1]] = Entry(assigned[1], assigned[2], file, line)
        elif Path(rest[0]).name not in BEFORE_ANYTHING:
            break
        rest = rest[1:]
    prefix, rest = _launcher(command, rest, file, line)
    _options(command, rest, prefix, file, line)
    if "vllm" in command.programs and command.words[:1] == ["serve"] and len(command.words) > 1:
        command.entries.append(Entry("model", command.words[1], file, line))
    return command


def of_overrides(words: Sequence[str]) -> Command:
    """Hydra's ``a.b=1`` alone, without a program."""
    command = Command()
    _options(command, words, "", "command line", None)
    return command


def _launcher(command: Command, words: list[str], file: str, line: int | None) -> tuple[str, list[str]]:
    """Takes the launchers off the front, their options with them: srun and torchrun may follow each other."""
    while words:
        program = Path(words[0]).name
        if program.startswith("python") and words[1:2] == ["-m"] and len(words) > 2:
            program, words = words[2], words[2:]
        command.programs.append(program)
        if program == "ray" and "--" in words:  # ray job submit ... -- the program
            words = words[words.index("--") + 1 :]
            continue
        if program not in LAUNCHERS:
            return "", words[1:]
        rest = words[2:] if program == "accelerate" else words[1:]
        if LAUNCHERS[program] == "slurm":
            rest = [re.sub(r"^-N(\d*)$", lambda m: f"--nodes={m[1]}" if m[1] else "--nodes", word) for word in rest]
        words = _options(command, rest, LAUNCHERS[program] + ".", file, line, until_program=True)
        if words and not (words[0] == "bash" or Path(words[0]).name.startswith(PROGRAMS)):
            command.programs.append(words[0])
            return "", words[1:]
    return "", []


def _options(
    command: Command, words: Sequence[str], prefix: str, file: str, line: int | None, *, until_program: bool = False
) -> list[str]:
    """``--key value``, ``--key=value``, ``--switch``, ``-x value`` and Hydra's ``a.b=value``. Of a launcher's words: up to the program."""
    rest = list(words)
    while rest:
        word = rest.pop(0)
        following = rest[0] if rest else ""
        override = OVERRIDE.fullmatch(word)
        if word == "--":
            continue
        if word.startswith("-") and len(word) > 1 and not _is_number(word):
            key, equals, value = word.partition("=")
            if not equals and following and _is_value(following) and not (until_program and _is_program(following)):
                value = rest.pop(0)
            if key in ("-m", "--module") and until_program:
                return [value, *rest]
            shown = prefix + key.lstrip("-") if prefix else key
            command.entries.append(Entry(shown, _scalar(value) if equals or value else True, file, line))
        elif until_program:
            return [word, *rest]
        elif override and not word.startswith("/"):
            command.entries.append(Entry(override[1], _scalar(override[2]), file, line))
        else:
            command.words.append(word)
    return []


def _is_value(word: str) -> bool:
    """Whether it can be the value of the option before it. Hydra's overrides cannot: their key has a dot before the equals sign."""
    override = OVERRIDE.fullmatch(word)
    if override and "." in override[1] and "/" not in override[1]:
        return False
    return not word.startswith("-") or _is_number(word)


def _is_program(word: str) -> bool:
    return word.endswith((".py", ".sh")) or word in PROGRAMS


def _is_number(word: str) -> bool:
    return re.fullmatch(r"[-+]?[\d.]+(e[-+]?\d+)?", word, re.IGNORECASE) is not None


def _scalar(word: str) -> object:
    """A word as YAML would read it, numbers in any notation: what Hydra does; option parsers agree on numbers and words."""
    if word.lower() in ("null", "none", "~"):
        return None
    if word.lower() in ("true", "false"):
        return word.lower() == "true"
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return word


# --- scripts -----------------------------------------------------------------------------------------------------------


def of_script(path: Path, environ: Mapping[str, str]) -> Command:
    """The command of a shell script that starts a program (the one with most options), with its variables. Raises `BadConfig`."""
    source = text_of(path)
    lines = source.splitlines()
    known = dict(environ)
    best, any_other = Command(), Command()
    exported: dict[str, Entry] = {}
    for line, words in _commands(source, path.name):
        if ARRAY.fullmatch(words[0]):
            _array(words, known)
            continue
        expanded = [part for word in words for part in _expanded(word, known)] or [""]
        if expanded[0] in ("export", "declare", "readonly", "local", "typeset"):
            expanded = [w for w in expanded[1:] if not w.startswith("-")]
            exported.update(_assigned(expanded, known, path.name, line))
        elif all(ASSIGNMENT.fullmatch(word) for word in expanded):
            _assigned(expanded, known, path.name, line)
        else:
            found = of_words(expanded, path.name, line)
            found.entries = [replace(e, line=_line_of(e, line, lines)) for e in found.entries]
            if _starts_something(expanded):
                best = max(best, found, key=lambda c: len(c.entries))
            else:
                any_other = max(any_other, found, key=lambda c: len(c.entries))
    if not best.programs:  # a launcher of their own, or one that a variable names
        best = any_other
    best.environ = {**exported, **best.environ}
    slurm = [
        Entry(f"slurm.{m[1].lstrip('-')}", _scalar(m[2]), path.name, source.count("\n", 0, m.start()) + 1)
        for m in SLURM.finditer(source)
    ]
    best.entries[:0] = slurm
    return best


def _line_of(entry: Entry, begin: int, lines: Sequence[str]) -> int:
    """Where the option stands in the command that begins at line `begin`; that line where it comes out of a variable."""
    names = "|".join(re.escape(name) for name in (entry.key, entry.key.partition(".")[2]) if name)
    written = re.compile(
        rf"(?:^|[\s'\"(+-])(?:{names})(?=[\s='\"]|$)"
    )  # a launcher's options have its name before them
    for number in range(begin, min(begin + LINES_OF_A_COMMAND, len(lines)) + 1):
        if written.search(lines[number - 1]):
            return number
        if not _ends_in_backslash(lines[number - 1]):
            break
    return begin


def _commands(source: str, name: str) -> list[tuple[int, list[str]]]:
    """The script's simple commands with the line that each begins at; comments are gone, continued lines joined."""
    found = []
    lines = HERE_DOCUMENT.sub(_as_assignment, source).splitlines()
    number = 0
    while number < len(lines):
        first, joined = number, lines[number]
        goes_on = _continues(joined)
        while goes_on and number + 1 < len(lines):
            number += 1
            added, in_quotes = lines[number], not _ends_in_backslash(joined)
            joined = joined + "\n" + added if in_quotes else joined.rstrip()[:-1] + " " + added
            if not in_quotes or any(sign in added for sign in "'\")\\"):  # else it is as unfinished as it was
                goes_on = _continues(joined)
            goes_on = goes_on and number - first < LINES_OF_A_COMMAND and len(joined) < LONGEST
        number += 1
        if joined.strip() and not joined.lstrip().startswith("#"):
            found += [(first + 1, words) for words in _split(joined)]
    if not found:
        raise BadConfig(text("{name} holds no command", name=name), "")
    return found


def _as_assignment(match: re.Match[str]) -> str:
    """A here-document that is read into a variable, as an assignment on as many lines."""
    body = match[3].replace("'", "")
    return f"{match[1]}='{body}\n'"


def _ends_in_backslash(line: str) -> bool:
    stripped = line.rstrip()
    return stripped.endswith("\\") and not stripped.endswith("\\\\")


def _continues(line: str) -> bool:
    if line.lstrip().startswith("#"):
        return False
    if re.match(r"\s*\w+\+?=\((?!\()[^)]*$", line):
        return True
    if not ("'" in line or '"' in line):
        return _ends_in_backslash(line)
    return _ends_in_backslash(line) or _words(line) is None


def _words(line: str) -> list[str] | None:
    """None where a quote is not closed."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    try:
        return list(lexer)
    except ValueError:
        return None


def _split(line: str) -> list[list[str]]:
    """The commands of a line, without what the shell does with their output."""
    commands: list[list[str]] = [[]]
    redirected = False
    for word in _words(line) or line.split():
        if word in END_OF_COMMAND:
            commands.append([])
            redirected = False
        elif REDIRECTION.match(word):
            redirected = True
        elif not redirected and word not in ("then", "do", "else", "fi", "done", "{", "}"):
            commands[-1].append(word)
    return [words for words in commands if words]


def _array(words: Sequence[str], known: dict[str, str]) -> None:
    """``ARGS=(--a 1)`` and ``ARGS+=(--b 2)``: kept as the words would be typed."""
    match = ARRAY.fullmatch(words[0])
    assert match is not None
    inner = [match[3], *words[1:]]
    inner[-1] = inner[-1].removesuffix(")")
    parts = [part for word in inner if word for part in _expanded(word, known)]
    known[match[1]] = shlex.join([*shlex.split(known.get(match[1], "")), *parts] if match[2] else parts)


def _expanded(word: str, known: Mapping[str, str]) -> list[str]:
    """A word with its variables replaced, twice at most: a value may name another one. Options in a variable become several words."""
    whole = WHOLE_VARIABLE.fullmatch(word)
    value = known.get(whole[1] or whole[2], "") if whole else ""
    if value.lstrip().startswith("-") or " --" in value:
        return [_replaced(part, known) for part in _words(value.replace("\\\n", " ")) or value.split()]
    return [_replaced(word, known)]


def _replaced(word: str, known: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        return known.get(name) or (match[3] if match[3] is not None else match[0])

    return VARIABLE.sub(value, VARIABLE.sub(value, word))[:LONGEST]


def _assigned(words: Sequence[str], known: dict[str, str], file: str, line: int) -> dict[str, Entry]:
    found = {}
    for word in words:
        match = ASSIGNMENT.fullmatch(word)
        if match:
            known[match[1]] = match[2]
            found[match[1]] = Entry(match[1], match[2], file, line)
    return found


def _starts_something(words: Sequence[str]) -> bool:
    rest = [w for w in words if not ASSIGNMENT.fullmatch(w) and Path(w).name not in BEFORE_ANYTHING]
    return bool(rest) and Path(rest[0]).name.startswith(PROGRAMS)
