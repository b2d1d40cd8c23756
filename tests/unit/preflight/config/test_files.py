"""Reading YAML, JSON and TOML: keys with their lines, and broken files as one line that says where."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from cases import each

from jupyter_traindbg.errors import BadConfig
from jupyter_traindbg.preflight.config import files


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def values(path: Path) -> dict[str, object]:
    return {entry.key: entry.value for entry in files.read(path)}


def lines(path: Path) -> dict[str, int | None]:
    return {entry.key: entry.line for entry in files.read(path)}


def test_yaml_keys_have_their_lines(tmp_path: Path) -> None:
    path = write(tmp_path, "a.yaml", "data:\n  size: 4\n  # why\n  files: [x, y]\nlr: 1e-6\non: true\nempty:\n")
    assert values(path) == {"data.size": 4, "data.files": ["x", "y"], "lr": "1e-6", "on": True, "empty": None}
    assert lines(path) == {"data.size": 2, "data.files": 4, "lr": 5, "on": 6, "empty": 7}


def test_yaml_anchors_and_merges_and_several_documents(tmp_path: Path) -> None:
    path = write(tmp_path, "a.yml", "base: &b {x: 1, y: 2}\nmine:\n  y: 3\n  <<: *b\n---\nlater: yes\n")
    assert values(path) == {"base.x": 1, "base.y": 2, "mine.x": 1, "mine.y": 3, "later": True}
    entries = [e.key for e in files.read(path)]
    assert entries.index("mine.y") < len(entries) - 1 - entries[::-1].index("mine.y"), (
        "its own word comes last, and counts"
    )


def test_yaml_tags_run_nothing(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "a.yaml",
        'x: !!python/object/apply:os.system ["touch gone"]\ny: !!python/name:os.system ""\nz: !own 3\n',
    )
    assert values(path)["z"] == "3"
    assert not (tmp_path / "gone").exists()


def test_json_and_toml_know_the_line_where_a_key_stands_once(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "ds.json",
        '{\n  "train_batch_size": 16,\n  "fp16": {"enabled": "auto"},\n  "bf16": {\n    "enabled": true}\n}',
    )
    assert values(path) == {"train_batch_size": 16, "fp16.enabled": "auto", "bf16.enabled": True}
    assert lines(path) == {"train_batch_size": 2, "fp16.enabled": None, "bf16.enabled": None}
    path = write(tmp_path, "run.toml", "[training]\nbatch_size = 8\n\n[model]\nhidden_size = 64\n")
    assert lines(path) == {"training.batch_size": 2, "model.hidden_size": 5}


@each(
    ("name", "content", "said"),
    [
        ("a.yaml", "a: 1\nb: [1, 2\nc: 3\n", r"a\.yaml:3 is no YAML: "),
        ("a.yaml", "a: 1\n\tb: 2\n", r"a\.yaml:2 is no YAML: "),
        ("a.yaml", "a: *nobody\n", r"a\.yaml:1 is no YAML: found undefined alias"),
        ("a.yaml", "- 1\n- 2\n", r"a\.yaml:1 holds no keys, only a list"),
        ("a.yaml", "a: &a\n  b: *a\n", r"a\.yaml:1 contains itself"),
        ("a.yaml", "a: {<<: 3}\n", r"a\.yaml:1 merges \(<<\) something that has no keys"),
        ("a.yaml", "x: " + "[" * 400, r"a\.yaml.* is no YAML: "),
        ("a.json", '{"a": 1,\n "b": }', r"a\.json:2 is no JSON: Expecting value"),
        ("a.json", "[1]", r"a\.json holds no keys, only a list"),
        ("a.json", '{"a":' * 3000 + "1" + "}" * 3000, r"a\.json is (no JSON|too deep)"),
        ("a.toml", "a = 1\nb = \n", r"a\.toml:2 is no TOML: "),
        ("a.yaml", b"\xff\xfe\x00", r"a\.yaml is no UTF-8 text"),
        ("a.yaml", b"a: 1\x00", r"a\.yaml is a binary file"),
    ],
)
def test_a_broken_file_is_told_in_one_line(tmp_path: Path, name: str, content: str | bytes, said: str) -> None:
    with pytest.raises(BadConfig, match=said) as caught:
        files.read(write(tmp_path, name, content))
    assert "\n" not in str(caught.value)


def test_what_cannot_be_a_configuration_is_refused(tmp_path: Path) -> None:
    (tmp_path / "d.yaml").mkdir()
    with pytest.raises(BadConfig, match="is a directory"):
        files.read(tmp_path / "d.yaml")
    with pytest.raises(BadConfig, match="cannot be read: No such file"):
        files.read(tmp_path / "none.yaml")
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "endless.yaml").symlink_to("/dev/zero")
    for name in ("pipe.yaml", "endless.yaml"):
        with pytest.raises(BadConfig, match="is a pipe or a device"):
            files.read(tmp_path / name)
    with (tmp_path / "huge.yaml").open("wb") as f:
        f.truncate(files.LARGEST + 1)
    with pytest.raises(BadConfig, match="that is no configuration"):
        files.read(tmp_path / "huge.yaml")


@pytest.mark.timeout(30)
@each("leaf", ["{x: 1}", "{}"])
@each("use", ["{p: *%s, q: *%s, r: *%s}", "{<<: [*%s, *%s, *%s]}"])
def test_a_small_file_that_grows_by_its_anchors_is_refused_quickly(tmp_path: Path, leaf: str, use: str) -> None:
    levels = [f"a0: &a0 {leaf}"]
    levels += [f"a{n}: &a{n} " + use % ((f"a{n - 1}",) * 3) for n in range(1, 25)]
    with pytest.raises(BadConfig, match="that is no configuration"):  # unfolded it would have 3^24 keys
        files.read(write(tmp_path, "bomb.yaml", "\n".join(levels)))
