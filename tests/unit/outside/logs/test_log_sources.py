"""Which files are meant, and whose they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_traindbg.outside import logs


def tree(place: Path, *names: str) -> Path:
    for name in names:
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("words\n")
    return place


def ranks(place: Path, pattern: str = "") -> dict[str, int | None]:
    return {f.name: f.rank for f in logs.find(str(place / pattern))}


def test_the_directory_of_torchrun(tmp_path: Path) -> None:
    tree(tmp_path, *(f"none_x1/attempt_0/{i}/{name}.log" for i in (0, 1, 10) for name in ("stdout", "stderr")))
    (tmp_path / "none_x1/attempt_0/0/stdout.log").write_text("")
    assert ranks(tmp_path) == {
        "0/stderr.log": 0,
        "1/stderr.log": 1,
        "1/stdout.log": 1,
        "10/stderr.log": 10,
        "10/stdout.log": 10,
    }


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("rank3.log", 3),
        ("train_rank_12.log", 12),
        ("log_3.txt", 3),
        ("worker-2.err", 2),
        ("slurm-4711.out", None),
        ("run_2.log", None),
        ("train.log", None),
    ],
)
def test_the_rank_in_a_name(tmp_path: Path, name: str, rank: int | None) -> None:
    tree(tmp_path, name)
    (only,) = logs.find(str(tmp_path / name))
    assert (only.name, only.rank) == (name, rank)


def test_numbers_of_neighbours_are_ranks_only_if_they_count_from_0(tmp_path: Path) -> None:
    tree(tmp_path, *(f"job-4711-{i}.out" for i in range(3)))
    assert list(ranks(tmp_path).values()) == [0, 1, 2]
    assert list(ranks(tmp_path, "job-4711-[12].out").values()) == [None, None]


def test_of_a_ray_session_the_files_that_tell(tmp_path: Path) -> None:
    telling = {
        "raylet.out",
        "raylet.err",
        "gcs_server.out",
        "worker-ab12-01000000-55.err",
        "job-driver-raysubmit_x.log",
    }
    tree(tmp_path, *(f"logs/{n}" for n in (*telling, "dashboard_agent.log", "log_monitor.log", "events/event_GCS.log")))
    found = logs.find(str(tmp_path))
    assert {f.name.removeprefix("logs/") for f in found} == telling
    assert [f.who for f in found if "worker" in f.name] == ["worker pid 55"]


def test_what_is_no_log_is_left_out_and_files_of_all_kinds_are_found(tmp_path: Path) -> None:
    tree(
        tmp_path,
        "a.log",
        "b.err",
        "c.out.gz",
        "nohup.out",
        "d.log.1",
        "x.py",
        "requirements.txt",
        "w.safetensors",
        "sub/e.txt",
    )
    assert {f.name for f in logs.find(str(tmp_path))} == {
        "a.log",
        "b.err",
        "c.out.gz",
        "nohup.out",
        "d.log.1",
        "sub/e.txt",
    }


def test_a_pattern_may_mean_directories_and_a_file_may_have_any_name(tmp_path: Path) -> None:
    tree(tmp_path, "run1/a.log", "run2/b.log", "weird")
    assert {Path(f.path).name for f in logs.find(str(tmp_path / "run*"))} == {"a.log", "b.log"}
    assert {Path(f.path).name for f in logs.find(str(tmp_path / "**/*.log"))} == {"a.log", "b.log"}
    assert logs.find(str(tmp_path / "weird"))[0].name == "weird"


def test_lines_are_of_the_rank_of_their_file(tmp_path: Path) -> None:
    (tmp_path / "rank0.log").write_text("one\n[rank7]: two\n")
    (tmp_path / "rank1.log").write_text("three\n")
    seen = logs.read(logs.find(str(tmp_path)), anchors=(), timeout=10)
    assert [(line.source, line.rank, line.who) for line in seen.lines] == [
        (0, 0, "rank 0"),
        (0, 7, "rank 7"),
        (1, 1, "rank 1"),
    ]
