"""How the verdict on a log is shown."""

from __future__ import annotations

import dataclasses

import pytest
from render_scenes_logs import healthy_log, log_diagnosis

from jupyter_traindbg import render


def test_the_root_comes_first_and_its_events_are_in_order_of_time() -> None:
    words = render.text(log_diagnosis(4), 120)
    lines = words.splitlines()
    about = "logs · 168,000 lines, 4 MiB · ranks 0-3 (4) · torchrun · last stage: train · 1.25 s"
    assert " ".join("".join(lines[:2]).split()) == f"✖ The log tells of a failure, on rank 3 · {about}"
    assert "rank 3 ran out of GPU memory" in lines[3]
    first, second = (
        next(i for i, line in enumerate(lines) if place in line) for place in ("rank3.log:41877", "rank0.log:41000")
    )
    assert first < second
    assert any("03-04 00:00:00" in line and "rank3.log:41877" in line for line in lines)
    assert "read in part" in words


def test_one_file_needs_no_name_and_a_log_without_times_no_column_for_them() -> None:
    words = render.text(log_diagnosis(1, dated=False), 120)
    assert "time" not in words.split("What happened")[1].splitlines()[1]
    assert "rank0.log:41877 torch" in words, "as evidence"
    assert "rank0.log:" not in words.split("What happened")[1].split("Note")[0]


def test_a_time_of_day_is_shown_as_it_is_written() -> None:
    seen = log_diagnosis(1)
    (event, *_) = seen.timeline
    at_noon = dataclasses.replace(event, line=dataclasses.replace(event.line, time_s=43_200.0))
    assert "12:00:00" in render.text(dataclasses.replace(seen, timeline=(at_noon,)), 120)


def test_many_files_are_folded() -> None:
    words = render.text(log_diagnosis(300), 120)
    assert "▸ 300 files" in words
    assert len(words.splitlines()) < 60
    assert "rank299.log" in render.text(log_diagnosis(300), 120, full=True)


def test_a_healthy_log_says_so() -> None:
    assert render.text(healthy_log(), 80).splitlines() == [
        "✔ The log tells of no failure · train.log · 20 lines, 1.21 KiB · 10 ms"
    ]


def test_in_chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINDBG_LANG", "zh")
    words = render.text(log_diagnosis(4), 120)
    assert "日志显示任务失败" in words
    assert "事件经过" in words
