"""What all tables have in common, whoever writes the next one; and what their rows are made of, by results that were made by hand."""

from __future__ import annotations

import math
import re
import runpy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args, get_origin

from cases import each
from render_scenes import SMALL
from render_scenes_threads import threads
from support import REPO

from jupyter_traindbg import questions, tables
from jupyter_traindbg.agent import listing, probes
from jupyter_traindbg.job import Job
from jupyter_traindbg.language import speaking
from jupyter_traindbg.model import (
    Attached,
    Diagnosis,
    LogEvidence,
    LogLine,
    LogSource,
    NotAvailable,
    ProcessUse,
    Rank,
    RankSteps,
    Silent,
    Step,
    Steps,
    Watched,
    WatchedEvent,
)
from jupyter_traindbg.questions import sql
from jupyter_traindbg.tables.base import NOT_AVAILABLE, Probe, Question, Told, complete

IDEOGRAPHS = re.compile("[\u3400-\u9fff]")
KINDS = (bool, int, float, str)
SCENES = {
    "collectives": "collectives",
    "environ": "environ",
    "findings": "diagnosis",
    "gpus": "gpu",
    "groups": "collectives",
    "memory": "memory",
    "param_groups": "lr",
    "parameters": "grads",
    "stacks": "stacks",
    "steps": "steps",
    "threads": "threads",
}
"""Tables whose answers are results that tests of rendering have anyway."""


def rows_of(name: str, *answers: Any) -> list[dict[str, Any]]:
    """Complete, by the names of the columns."""
    columns = tables.columns(name)
    told = (complete(row, columns) for row in tables.load(name).rows(*answers))
    return [dict(zip((c.name for c in columns), values, strict=True)) for values in told]


def fits(value: Any, kind: Any) -> bool:
    if value is None:
        return True
    if get_origin(kind) is list:
        return isinstance(value, Sequence) and all(fits(one, get_args(kind)[0]) for one in value)
    return isinstance(value, (int, float) if kind is float else kind) and (kind is bool or not isinstance(value, bool))


def test_there_is_a_table_for_each_thing_that_can_be_known() -> None:
    assert set(tables.names()) >= {
        "batches", "collectives", "environ", "events", "findings", "gc", "gpus", "groups", "log_lines", "memory", "modules", "objects",
        "param_groups", "parameters", "processes", "ranks", "stacks", "steps", "threads",
    }  # fmt: skip


@each("name", tables.names())
def test_a_table_says_what_a_row_is_what_it_costs_and_what_its_columns_mean(name: str) -> None:
    told = tables.load(name)
    meaning = (told.__doc__ or "").strip()
    assert meaning.endswith(".")
    assert "\n" not in meaning
    assert told.COST
    assert "rank" in [c.name for c in told.COLUMNS] or name == "findings", "so that joins work"
    *own, last = tables.columns(name)
    assert last is NOT_AVAILABLE
    assert len({c.name for c in own}) == len(own)
    for column in own:
        assert re.fullmatch(r"[a-z][a-z0-9_]*", column.name)
        assert column.meaning
        assert column.kind in KINDS or get_args(column.kind)[0] in (*KINDS, list[int])


@each("name", tables.names())
def test_what_a_table_asks_is_there_to_be_asked(name: str) -> None:
    for asked in tables.load(name).ASKS:
        if isinstance(asked, Probe):
            assert asked.name in listing.names(probes)
        else:
            assert asked.name in questions.names() or callable(getattr(Job, asked.name))
            assert isinstance(asked, Question)


@each("name", SCENES)
def test_rows_have_the_columns_that_are_declared_in_their_kinds(name: str) -> None:
    columns = {c.name: c.kind for c in tables.columns(name)}
    answer = SMALL[SCENES[name]]
    made = list(tables.load(name).rows(answer))
    assert made
    assert not {key for row in made for key in row} - set(columns), "nothing that no column is for"
    for row in rows_of(name, answer):
        assert {key: value for key, value in row.items() if not fits(value, columns[key])} == {}
    seen = {key for row in made for key, value in row.items() if value is not None}
    assert len(seen) > len(columns) / 3, "and the most are filled"


def test_what_is_not_available_is_null_and_its_reason_is_in_the_last_column() -> None:
    columns = tables.columns("gc")
    gone, other = NotAvailable("it is gone"), NotAvailable("nobody looked")
    row = {"rank": 1, "enabled": gone, "frozen": other, "threshold": gone, "not_available": "so far"}
    told = dict(zip((c.name for c in columns), complete(row, columns), strict=True))
    assert (told["rank"], told["enabled"], told["frozen"]) == (1, None, None)
    assert told["not_available"] == "so far; enabled, threshold: it is gone; frozen: nobody looked"
    assert complete({"rank": 1}, columns)[-1] is None


CODE = re.compile(
    r"`[^`]*`|\b(?:rank|DataLoader|NVML|MIG|CUDA|Ray|Python|torch|agent|worker|ms|NULL|NaN|GIL|CPU|GPU)\b"
)


def test_what_is_listed_is_in_the_readers_language() -> None:
    with speaking("zh"):
        told = sql.listed()
    words = [word for t in told.tables for word in (t.row, t.cost, *(c.meaning for c in t.columns))]
    assert [word for word in words if not IDEOGRAPHS.search(word) and re.search("[a-z]", CODE.sub("", word))] == []
    with speaking("en"):
        told = sql.listed()
    assert not any(
        IDEOGRAPHS.search(word) for t in told.tables for word in (t.row, t.cost, *(c.meaning for c in t.columns))
    )


def test_why_a_value_is_missing_is_said_in_the_readers_language() -> None:
    told = Told(((0, 70, {"modules": [module("fc", None)], "steps": 5, "note": ""}),))
    with speaking("zh"):
        (row,) = rows_of("modules", told)
        (record,) = SMALL["steps"].ranks[0].steps[-1:]  # type: ignore[attr-defined]
        (step,) = rows_of("steps", Steps((RankSteps(0, 70, (replace(record, loss=None),)),)))
    assert "在观察的各步中没有被调用" in row["not_available"]
    assert "没有观察到损失到达 backward()" in step["not_available"]


# --- one by one ------------------------------------------------------------------------------------------------------


def test_a_step_has_its_first_learning_rate_and_says_what_was_not_seen() -> None:
    (record,) = SMALL["steps"].ranks[0].steps[-1:]  # type: ignore[attr-defined]
    assert isinstance(record, Step)
    first = replace(
        record, lr=(1e-3, 1e-4), loss=math.nan, duration_s=None, data_wait_s=None, cuda_peak_bytes=None, grad_norm=0.5
    )
    (row,) = rows_of("steps", Steps((RankSteps(3, 70, (first,)),)))
    assert (row["rank"], row["pid"], row["lr"], tuple(row["lr_by_group"])) == (3, 70, 1e-3, (1e-3, 1e-4))
    assert math.isnan(row["loss"]), "which is a value"
    assert "duration_s, data_wait_s: nobody saw its beginning" in row["not_available"]
    assert "cuda_peak_bytes: the process uses no CUDA device" in row["not_available"]
    assert "grad_norm" not in row["not_available"]


def test_a_rank_that_does_not_answer_is_a_row_with_the_reason() -> None:
    known = {"step": 7, "usual_step_s": 0.1, "since_last_step_s": None, "started_s": 1.7e9}
    ranks = tuple(Rank(n, 3, 70 + n, "injected", "3.11", "2.13", ("ray",)) for n in range(3))
    shut = replace(ranks[2], agent=False, way="outside only", note="it is stopped", python=NotAvailable("no answer"))
    told = Told(((0, 70, known),), (Silent(1, 71, "process 71 has ended"),))
    first, second, third = rows_of("ranks", Attached("4", (*ranks[:2], shut), 0.1), told)
    assert (first["answers"], first["step"], first["frameworks"]) == (True, 7, ("ray",))
    assert first["not_available"] == "since_last_step_s: no step has been seen since the attach"
    assert second["answers"] is False
    assert second["not_available"].endswith("attached_s: process 71 has ended")
    assert "it is stopped" in third["not_available"]
    assert "python: no answer" in third["not_available"]


def test_an_event_of_several_ranks_is_a_row_of_each() -> None:
    watched = SMALL["watched"]
    assert isinstance(watched, Watched)
    events = (WatchedEvent("lr", 4, 1.7e9, "learning rate x 0.5", 104, (0, 1)), WatchedEvent("finished", 9, 1.7e9, "x"))
    told = rows_of("events", replace(watched, events=events))
    assert [(row["rank"], row["kind"], row["step"], row["optimizer_step"]) for row in told] == [
        (0, "lr", 4, 104),
        (1, "lr", 4, 104),
        (None, "finished", 9, None),
    ]


HIDDEN = "python train.py --api-key «redacted:api-key#1»"


def test_a_finding_tells_no_secret() -> None:
    diagnosis = SMALL["diagnosis"]
    assert isinstance(diagnosis, Diagnosis)
    first = replace(
        diagnosis.verdict[0], evidence=("started as `python train.py --api-key s3cr3t-of-ours`", "s3cr3t-of-ours")
    )
    (row, *_) = rows_of("findings", replace(diagnosis, verdict=(first, *diagnosis.verdict[1:])))
    assert tuple(row["evidence"]) == (f"started as `{HIDDEN}`", "«redacted:api-key#1»")


def test_a_process_says_what_it_uses() -> None:
    first, *others = threads(1).processes
    use = ProcessUse("python train.py", "running", 2**20, read_bytes_per_s=NotAvailable("closed to us"))
    told = rows_of("processes", replace(threads(1), processes=(replace(first, use=use), *others)))
    assert (told[0]["command"], told[0]["state"], told[0]["rss_bytes"]) == ("python train.py", "running", 2**20)
    assert "read_bytes_per_s: closed to us" in told[0]["not_available"]
    assert told[0]["threads"] == len(first.threads)
    assert told[1]["role"] == "DataLoader worker"


TIMES = {
    "calls": 10,
    "backwards": 5,
    "forward_s": 1.0,
    "forward_self_s": 0.5,
    "backward_s": 2.0,
    "backward_self_s": 1.5,
    "on_device": "cpu",
}


def module(name: str, times: dict[str, Any] | None) -> dict[str, Any]:
    what = {"model": 0, "name": name, "kind": "Linear", "training": True, "device": "cpu", "dtype": "float32"}
    return {**what, "parameters": 2, "elements": 20, "bytes": 80, "times": times}


@each(
    ("times", "steps", "why"),
    [
        (None, 5, "calls, backwards, forward_s, forward_self_s, backward_s, backward_self_s: it was not called"),
        (None, 0, "calls, backwards, forward_s, forward_self_s, backward_s, backward_self_s: no step came"),
        ({**TIMES, "on_device": "cuda"}, 5, "forward_s, forward_self_s, backward_s, backward_self_s: a call on a GPU"),
        ({**TIMES, "backwards": 0}, 5, "backward_s, backward_self_s: its backward was not seen"),
    ],
)
def test_a_module_without_times_says_why(times: dict[str, Any] | None, steps: int, why: str) -> None:
    answer = {"modules": [module("layers.0.fc", times)], "steps": steps, "note": "no step came"}
    (row,) = rows_of("modules", Told(((1, 71, answer),)))
    assert row["not_available"].startswith(why)
    assert (row["module"], row["parent"], row["depth"], row["parameters_bytes"]) == ("layers.0.fc", "layers.0", 3, 80)


def test_the_times_of_a_module_are_those_of_a_step() -> None:
    answer = {"modules": [module("", TIMES)], "steps": 5, "note": ""}
    (row,) = rows_of("modules", Told(((0, 70, answer),)))
    assert (row["calls"], row["forward_s"], row["backward_self_s"]) == (2.0, 0.2, 0.3)
    assert (row["depth"], row["parent"], row["not_available"]) == (0, None, None)


LOADER = {
    "class": "DataLoader",
    "dataset": "Text",
    "sampler": "RandomSampler",
    "batch_size": 4,
    "num_workers": 2,
    "prefetch_factor": 2,
    "pin_memory": False,
    "persistent_workers": False,
    "length": 9,
    "skipped": 0,
}


def test_a_loader_that_gave_no_batch_is_a_row_without_one() -> None:
    batch = {
        "loader": 0,
        "step": 3,
        "batch": 2,
        "samples": 4,
        "elements": 8,
        "bytes": 64,
        "tensors": [["x", [4, 2], "int64"]],
    }
    answer = {"batches": [batch], "loaders": [LOADER, {**LOADER, "dataset": "Validation", "length": None}], "note": ""}
    first, second = rows_of("batches", Told(((0, 70, answer),)))
    assert (first["tensors"], first["length"], first["not_available"]) == (["x [4, 2] int64"], 9, None)
    assert (second["dataset"], second["batch"], second["num_workers"]) == ("Validation", None, 2)
    assert "it gave none while it was watched" in second["not_available"]


def test_only_full_collections_are_timed() -> None:
    counts = {"collections": 3, "collected": 1, "uncollectable": 0, "threshold": 700, "waiting": 5}
    place = {"frames": [["train.py", 9, "main", 0]], "count": 2}
    watched = {"count": 2, "pause_s": 0.4, "longest_s": 0.3, "places": [place]}
    answer = {"enabled": False, "frozen": 8, "generations": [counts] * 3, "window_s": 1.0, "watched": watched}
    young, _, full = rows_of("gc", Told(((0, 70, answer),)))
    assert (young["pause_s"], young["enabled"], young["frozen"]) == (None, False, 8)
    assert "pause_s" in young["not_available"]
    assert (full["watched_collections"], full["longest_pause_s"], full["set_off_at"]) == (2, 0.3, "train.py:9 main")


def test_each_object_is_counted_once() -> None:
    tensors = {"type": "Tensor", "layout": "strided", "shape": [2, 3], "dtype": "float32", "device": "cpu"}
    told = {
        "types": [["dict", 9]],
        "tensors": [{**tensors, "requires_grad": True, "count": 4, "bytes": 96}],
        "where": "step",
    }
    plain, tensor = rows_of("objects", Told(((0, 70, told),)))
    assert (plain["type_name"], plain["is_tensor"], plain["objects"], plain["bytes"]) == ("dict", False, 9, None)
    assert (tensor["shape"], tensor["objects"], tensor["bytes"], tensor["counted_when"]) == ([2, 3], 4, 96, "step")


def test_a_log_line_is_of_the_rank_that_it_or_its_file_names() -> None:
    sources = (LogSource("rank3.log", 3, 9, 1), LogSource("all.log", None, 9, 1))
    lines = (LogLine(0, 7, "one"), LogLine(1, 8, "two", rank=1, who="rank 1", time_s=1.7e9), LogLine(1, 9, "three"))
    told = rows_of("log_lines", LogEvidence(sources, lines))
    assert [(r["rank"], r["file"], r["line"], r["text"]) for r in told] == [
        (3, "rank3.log", 7, "one"),
        (1, "all.log", 8, "two"),
        (None, "all.log", 9, "three"),
    ]


# --- the page --------------------------------------------------------------------------------------------------------


def test_the_page_lists_what_the_code_has() -> None:
    page = (REPO / "docs" / "sql.md").read_text(encoding="utf-8")
    assert runpy.run_path(str(REPO / "scripts" / "sql_page.py"))["page"]() == page, "run scripts/sql_page.py"
    assert all(f"\n### {name}\n" in page for name in tables.names())
