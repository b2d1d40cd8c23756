"""A picture as a file: complete or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from cases import each
from render_scenes_pictures import picture_of_loss

from jupyter_traindbg.errors import UsageError
from jupyter_traindbg.pictures import inks
from jupyter_traindbg.pictures.write import write


@each(("name", "begins"), [("a.svg", b"<?xml"), ("a.PNG", b"\x89PNG"), ("a.pdf", b"%PDF")])
def test_it_is_written_as_its_ending_says(name: str, begins: bytes, tmp_path: Path) -> None:
    picture = write(picture_of_loss(1, 30), str(tmp_path / name))
    assert picture.path == str(tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(begins)
    assert os.listdir(tmp_path) == [name]
    (tmp_path / name).unlink()


def test_a_file_has_colours_of_its_own(tmp_path: Path) -> None:
    write(picture_of_loss(1, 30), str(tmp_path / "a.svg"))
    svg = (tmp_path / "a.svg").read_text()
    assert inks.INK in svg
    assert "var(" not in svg


@each("name", ["loss", "loss.txt", "loss.svg.gz"])
def test_an_ending_that_says_nothing(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no ending that says what to write"):
        write(picture_of_loss(1, 30), str(tmp_path / name))
    assert os.listdir(tmp_path) == []


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no directory"):
        write(picture_of_loss(1, 30), str(tmp_path / "no" / "loss.svg"))


def test_what_fails_on_the_way_leaves_the_older_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "loss.png"
    path.write_bytes(b"older")
    picture = picture_of_loss(1, 30)

    def full(*args: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(picture.figure, "savefig", full)
    with pytest.raises(UsageError, match="cannot be written: No space left on device"):
        write(picture, str(path))
    assert path.read_bytes() == b"older"
    assert os.listdir(tmp_path) == ["loss.png"]
