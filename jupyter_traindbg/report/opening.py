"""A bundle, unpacked beside itself, and its index shown in a browser's window where there can be one."""

from __future__ import annotations

import dataclasses
import itertools
import os
import shutil
import sys
import tempfile
import time
import webbrowser
import zipfile
from pathlib import Path

from ..language import text
from ..model import Report
from ..tasks import Task

__all__ = ["opened"]

LONGEST_S = 10.0
IN_A_TERMINAL = frozenset(("browsh", "carbonyl", "elinks", "links", "links2", "lynx", "netrik", "w3m", "www-browser"))


def opened(made: Report, *, notebook: bool = False) -> Report:
    """`made`, unpacked, its index shown in a window within 10 s; what cannot be done is told in it, and nothing is raised.

    `notebook`: its reader sits at a browser already, perhaps of another machine, so no window is opened.
    """
    try:
        index = _unpacked(made.path)
    except (OSError, zipfile.BadZipFile) as e:
        why = getattr(e, "strerror", None) or str(e)
        return dataclasses.replace(made, not_opened=text("not opened: it could not be unpacked: {why}", why=why))
    return dataclasses.replace(made, index=index, not_opened=_in_lab() if notebook else _shown(index))


def _in_lab() -> str:
    return text("double-click it in JupyterLab's file browser")


def _unpacked(path: str) -> str:
    """Where the index lies now: in a folder named after the bundle that was not there before; whole or not at all."""
    beside = path.removesuffix(".zip") if path.endswith(".zip") else f"{path}-unpacked"
    names = itertools.chain([beside], (f"{beside}-{n}" for n in itertools.count(2)))
    folder = next(name for name in names if not os.path.lexists(name))
    temporary = tempfile.mkdtemp(prefix=".traindbg-", suffix=".part", dir=os.path.dirname(path))
    try:
        with zipfile.ZipFile(path) as archive:
            archive.extractall(temporary)
        os.rename(temporary, folder)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return os.path.join(folder, "index.html")


def _shown(index: str) -> str:
    """Opens a window with `index`; why not, where there can be none, or "". A browser that does not come is not waited for."""
    if sys.platform.startswith("linux") and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return text("not opened, there is no display here")
    said = Task(lambda: _window(Path(index).as_uri()), "browser").in_time(time.monotonic() + LONGEST_S)
    return text("not opened, no browser came within 10 s") if said is None else said


def _window(address: str) -> str:
    try:
        browser = webbrowser.get()
        name = os.path.basename(str(getattr(browser, "name", "")))
        if type(browser) is webbrowser.GenericBrowser or name in IN_A_TERMINAL:
            return text("not opened, {name} would take this terminal", name=name)
        started = browser.open(address)
    except (webbrowser.Error, OSError) as e:
        return text("not opened, there is no browser here ({e})", e=e)
    return "" if started else text("not opened, {name} did not start", name=name)
