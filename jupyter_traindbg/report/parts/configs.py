"""The configuration files that the command lines name, or you named: YAML, JSON, TOML, INI of at most 256 KiB, as they are on disk now."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from ...outside import procfs
from ..asking import text_of
from ..context import Context, Part, Unavailable

TITLE = "Configuration files"
ORDER = 54
FROM_JOB = False
AFTER = ""
MOST_BYTES = 256 * 1024
MOST = 20
SHOWN_LINES = 200
_ENDINGS = (".yaml", ".yml", ".json", ".toml", ".ini", ".cfg", ".conf", ".sh")
_HYDRA_PATH = re.compile(r"^(?:--config-(?:path|dir)|-cp|-cd)(?:=(.*))?$")
_HYDRA_NAME = re.compile(r"^(?:--config-name|-cn)(?:=(.*))?$")


def collect(context: Context) -> Part:
    texts: dict[str, str] = {}
    excerpts: dict[str, list[str]] = {}
    missing: list[str] = []
    for shown, path in _named(context):
        if len(texts) == MOST:
            missing.append(f"more than {MOST} files: {shown} and the following were left out")
            break
        try:
            text = text_of(path, MOST_BYTES)
            texts[_inside(shown, texts)] = text
            excerpts[shown] = text.splitlines()[:SHOWN_LINES]
        except FileNotFoundError:
            if shown in context.configs:
                missing.append(f"{shown}: there is no such file")
        except (Unavailable, OSError) as e:
            missing.append(f"{shown}: {e.strerror if isinstance(e, OSError) else e}")
    if not texts and not missing:
        raise Unavailable("no configuration file is named on a command line (`--config FILE` adds one)")
    return Part(f"{len(texts)} file{'s' * (len(texts) != 1)}", texts=texts, excerpts=excerpts, missing=missing)


def _named(context: Context) -> Iterator[tuple[str, str]]:
    """Each file once: as it is named, and the path to read it by."""
    seen = {path: path for path in context.configs}
    for pid in context.all_pids:
        cwd, root = _cwd(pid), f"/proc/{pid}/root"
        for word in _files(procfs.command(pid)):
            if not os.path.basename(word).startswith("kernel-"):  # a kernel's connection file is no configuration
                shown = os.path.normpath(os.path.join(cwd, os.path.expanduser(word)))
                seen.setdefault(shown, root + shown)
    yield from seen.items()


def _files(words: tuple[str, ...]) -> Iterator[str]:
    for i, word in enumerate(words):
        following = words[i + 1] if i + 1 < len(words) else ""
        _, _, value = word.partition("=")
        for candidate in (word, value):
            if candidate.lower().endswith(_ENDINGS) and not candidate.startswith("-"):
                yield candidate.removeprefix("@")
        if (named := _HYDRA_NAME.match(word)) is not None:
            yield from _hydra(words, named[1] or following)


def _hydra(words: tuple[str, ...], name: str) -> Iterator[str]:
    """``--config-path DIR --config-name NAME``, relative to the script's directory."""
    folders = [m[1] or words[i + 1] for i, w in enumerate(words[:-1]) if (m := _HYDRA_PATH.match(w))]
    scripts = [os.path.dirname(w) for w in words if w.endswith(".py")]
    for folder in folders or ["config", "conf", ""]:
        for script in scripts or [""]:
            yield os.path.join(script, folder, name if name.endswith(_ENDINGS) else f"{name}.yaml")


def _cwd(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return "/"


def _inside(shown: str, taken: dict[str, str]) -> str:
    name, ending = os.path.splitext(os.path.basename(shown))
    wanted = f"config/{name}{ending}"
    number = 1
    while wanted in taken:
        number += 1
        wanted = f"config/{name}-{number}{ending}"
    return wanted
