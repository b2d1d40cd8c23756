"""The zip: written beside its goal and renamed when it is complete, so that there is a whole one or none."""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
import time
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .._version import __version__
from ..errors import UsageError
from ..language import text
from ..model import Report, Result
from .running import Collected

__all__ = ["as_json", "checked", "safe_name", "write"]

_UNSAFE = re.compile(r"[^A-Za-z0-9._/+=@-]+")
_LONGEST = 150


def checked(path: str, *, force: bool) -> str:
    """`path`, made absolute. Raises `UsageError` where no bundle can be written there."""
    full = os.path.abspath(os.path.expanduser(path))
    folder = os.path.dirname(full)
    if os.path.isdir(full):
        raise UsageError(text("{path} is a directory", path=path), text("name a file in it, such as bundle.zip"))
    if not os.path.isdir(folder):
        raise UsageError(
            text("there is no directory {folder}", folder=folder), text("make it, or name another place with -o")
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(text("{folder} may not be written to", folder=folder), text("name another place with -o"))
    if os.path.lexists(full) and not force:
        raise UsageError(text("{path} exists", path=path), text("name another file, or overwrite it with --force"))
    return full


def safe_name(name: str, taken: Mapping[str, Any]) -> str:
    """`name` as a relative path of plain characters that is not in `taken`, whatever a log's or a rank's name was."""
    parts = [_UNSAFE.sub("-", part).strip("-") for part in name.split("/")]
    short = "/".join(part[:_LONGEST] for part in parts if part.strip(".")) or "unnamed"
    stem, dot, ending = short.rpartition(".")
    wanted, number = short, 1
    while wanted in taken:
        number += 1
        wanted = f"{stem}-{number}{dot}{ending}" if stem else f"{short}-{number}"
    return wanted


@dataclass(frozen=True)
class _Data(Result):
    """Anything as plain data."""

    it: Any

    def json(self) -> str:
        return json.dumps(self.to_dict()["it"], ensure_ascii=False, allow_nan=False)


def as_json(report: Report, collected: Sequence[Collected], when: str, problem: str) -> str:
    """Everything as one JSON document, a line for each part: an indented one would take ten times as long."""
    maker = f"jupyter-traindbg {__version__}"
    about = {"made_by": maker, "made_at": when, "target": report.target, "problem": problem}
    fields = {**about, "findings": report.verdict, "redacted": report.redacted}
    lines = [f'"{name}": {_Data(value).json()}' for name, value in fields.items()]
    parts = ",\n".join(f'"{one.name}": {_part(one)}' for one in collected)
    return "{\n" + ",\n".join([*lines, f'"parts": {{\n{parts}\n}}']) + "\n}\n"


def _part(one: Collected) -> str:
    told: dict[str, Any] = {"title": one.title, "taken_s": round(one.taken_s, 3)}
    if one.part is None:
        return _Data({**told, "not_available": one.problem, **({"trace": one.trace} if one.trace else {})}).json()
    told |= {"summary": one.part.summary, "missing": one.part.missing, "files": list(one.part.texts)}
    results = [json.dumps(result.to_dict(), ensure_ascii=False, allow_nan=False) for result in one.part.results]
    kinds = [type(result).__name__ for result in one.part.results]
    head = _Data({**told, "data": one.part.data, "kinds": kinds}).json()
    return f'{head[:-1]}, "results": [{", ".join(results)}]}}'


def write(path: str, texts: Mapping[str, str], *, force: bool) -> int:
    """The zip with `texts`, readable for its owner only; its size in bytes. Raises `UsageError` where the disk or a rival is in the way."""
    now = time.localtime()[:6]
    handle, temporary = tempfile.mkstemp(prefix=".traindbg-", suffix=".zip.part", dir=os.path.dirname(path))
    try:
        with os.fdopen(handle, "wb") as raw:
            with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
                for name, content in texts.items():
                    info = zipfile.ZipInfo(name, now)
                    info.compress_type = zipfile.ZIP_DEFLATED
                    info.external_attr = 0o600 << 16
                    archive.writestr(info, content.encode("utf-8", errors="replace"))
            raw.flush()
            os.fsync(raw.fileno())
        _place(temporary, path, force=force)
        return os.path.getsize(path)
    except OSError as e:
        raise UsageError(
            text("{path} cannot be written: {why}", path=path, why=e.strerror or e), text("name another place with -o")
        ) from None
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def _place(temporary: str, path: str, *, force: bool) -> None:
    """Give the finished file its name; without `force`, never in the place of one that came meanwhile."""
    if force:
        os.replace(temporary, path)
        return
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise UsageError(
            text("{path} exists", path=path), text("name another file, or overwrite it with --force")
        ) from None
    except OSError:  # a file system without hard links
        os.replace(temporary, path)
