"""`traindbg report --open`: the page is there as a whole, and is shown where there is a window for it."""

from __future__ import annotations

import os
import stat
import threading
import webbrowser
import zipfile
from pathlib import Path

import pytest
from cases import each

from jupyter_traindbg.cli import main
from jupyter_traindbg.model import Report
from jupyter_traindbg.report import opening


class Window(webbrowser.BaseBrowser):
    """A browser with a window of its own, which keeps what it was asked for."""

    def __init__(self, name: str = "firefox", *, comes: bool = True) -> None:
        super().__init__(name)
        self.comes = comes
        self.asked: list[str] = []

    def open(self, url: str, new: int = 0, autoraise: bool = True) -> bool:
        self.asked.append(url)
        return self.comes


@pytest.fixture
def window(monkeypatch: pytest.MonkeyPatch) -> Window:
    """A desktop with a browser."""
    found = Window()
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(webbrowser, "get", lambda: found)
    return found


def bundle(tmp_path: Path, name: str = "a b.zip") -> Report:
    path = tmp_path / name
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("index.html", "<p>here</p>")
        archive.writestr("logs/rank0.txt", "lines")
    return Report(str(path), 1, "4711", (), ())


def test_a_window_shows_the_page_beside_the_zip(tmp_path: Path, window: Window) -> None:
    shown = opening.opened(bundle(tmp_path))
    index = tmp_path / "a b" / "index.html"
    assert (shown.index, shown.not_opened) == (str(index), "")
    assert window.asked == [index.as_uri()]
    assert "%20" in window.asked[0]
    assert index.read_text() == "<p>here</p>"
    assert (tmp_path / "a b" / "logs" / "rank0.txt").read_text() == "lines"
    assert stat.S_IMODE(index.parent.stat().st_mode) == 0o700, "as private as the zip"
    assert sorted(os.listdir(tmp_path)) == ["a b", "a b.zip"], "nothing else is left"


def test_what_is_there_is_left_alone(tmp_path: Path, window: Window) -> None:
    (tmp_path / "a b").write_text("precious")
    (tmp_path / "a b-2").symlink_to("nowhere")
    shown = opening.opened(bundle(tmp_path))
    assert shown.index == str(tmp_path / "a b-3" / "index.html")
    assert (tmp_path / "a b").read_text() == "precious"
    assert opening.opened(bundle(tmp_path, "plain")).index == str(tmp_path / "plain-unpacked" / "index.html")


def test_it_is_whole_or_not_at_all(tmp_path: Path, window: Window) -> None:
    made = bundle(tmp_path)
    path = Path(made.path)
    path.write_bytes(path.read_bytes().replace(b"lines", b"lones"))  # its checksum is another one
    shown = opening.opened(made)
    assert shown.index == ""
    assert shown.not_opened.startswith("not opened: it could not be unpacked: Bad CRC-32")
    path.unlink()
    assert opening.opened(made).not_opened == "not opened: it could not be unpacked: No such file or directory"
    assert os.listdir(tmp_path) == []
    assert window.asked == []


def test_without_a_display_nothing_is_tried(tmp_path: Path, window: Window, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DISPLAY")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    shown = opening.opened(bundle(tmp_path))
    assert shown.not_opened == "not opened, there is no display here"
    assert Path(shown.index).is_file(), "a path to go to"
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    assert opening.opened(bundle(tmp_path)).not_opened == ""
    assert len(window.asked) == 1


@each(
    "browser",
    [webbrowser.GenericBrowser("/usr/bin/my-own"), Window("/usr/bin/lynx"), Window("w3m"), Window("www-browser")],
)
def test_a_browser_that_would_take_the_terminal_is_not_started(browser: webbrowser.BaseBrowser) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(webbrowser, "get", lambda: browser)
        assert opening._window("file:///x") == f"not opened, {os.path.basename(browser.name)} would take this terminal"
    assert getattr(browser, "asked", []) == []


def test_a_browser_that_runs_beside_may_be_started() -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(webbrowser, "get", lambda: webbrowser.BackgroundBrowser("/no/such/xdg-open"))
        assert opening._window("file:///x") == "not opened, xdg-open did not start"


def test_no_browser_at_all() -> None:
    def none() -> None:
        raise webbrowser.Error("could not locate runnable browser")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(webbrowser, "get", none)
        assert opening._window("x") == "not opened, there is no browser here (could not locate runnable browser)"
        patched.setattr(webbrowser, "get", lambda: Window(comes=False))
        assert opening._window("x") == "not opened, firefox did not start"


@pytest.mark.timeout(30)
def test_a_browser_that_hangs_is_not_waited_for(
    tmp_path: Path, window: Window, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = threading.Event()
    monkeypatch.setattr(window, "open", lambda address: released.wait())
    monkeypatch.setattr(opening, "LONGEST_S", 0.1)
    try:
        assert opening.opened(bundle(tmp_path)).not_opened.startswith("not opened, no browser came")
    finally:
        released.set()


def test_a_notebooks_reader_has_a_browser_already(tmp_path: Path, window: Window) -> None:
    shown = opening.opened(bundle(tmp_path), notebook=True)
    assert shown.not_opened == "double-click it in JupyterLab's file browser"
    assert Path(shown.index).is_file()
    assert window.asked == []


def test_of_a_log_at_a_terminal(tmp_path: Path, window: Window, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "crash.log"
    log.write_text("step 1 loss 2.31\n")
    path = tmp_path / "r.zip"
    words = ["report", str(log), "-o", str(path), "--timeout", "20"]
    assert main(words) == 0
    assert window.asked == [], "only where it was asked for"
    capsys.readouterr()
    assert main([*words, "--open", "--force"]) == 0
    index = tmp_path / "r" / "index.html"
    assert f"opened: {index}" in "".join(capsys.readouterr().out.split("\n  "))
    assert window.asked == [index.as_uri()]
