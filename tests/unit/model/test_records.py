"""Results as tables: which rows and columns there are, and what is in them."""

from __future__ import annotations

import functools
import json
import math
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from cases import each
from render_scenes import EMPTY, LARGE, NOT_HERE, SMALL, attached, changed, device, grads, memory, silent, step

import jupyter_traindbg  # noqa: F401 - it installs what makes the tables
from jupyter_traindbg import model
from jupyter_traindbg.errors import MissingPiece
from jupyter_traindbg.model import (
    Diagnosis,
    Environ,
    EnvironRow,
    EnvironValue,
    Exported,
    GpuReport,
    Grads,
    GradStat,
    Maybe,
    NotAvailable,
    RankGrads,
    RankSteps,
    Result,
    Silent,
    SqlRows,
    Stacks,
    Steps,
    Target,
    Targets,
    Verified,
    as_records,
)
from jupyter_traindbg.model import records as module

CLASSES = [thing for thing in vars(model).values() if isinstance(thing, type) and issubclass(thing, Result)]
SCENES = {
    f"{size}, {name}": r
    for size, rs in (("small", SMALL), ("empty", EMPTY), ("large", LARGE))
    for name, r in rs.items()
}
UNSCANNED, NO_GRADIENT = NotAvailable("its norm is finite"), NotAvailable("no gradient")


@functools.cache
def arrow(name: str) -> Any:
    return SCENES[name].to_arrow()


def sparse(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """`rows` without what is not there."""
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


# --- all of them ---------------------------------------------------------------------------------------------------


@each("cls", [cls for cls in CLASSES if cls is not Result])
def test_every_result_says_where_its_rows_are_and_no_two_columns_have_one_name(cls: type[Result]) -> None:
    assert "_rows" in vars(cls)
    columns = Counter(
        name for name, _ in module._columns(cls, [level.split(":") for level in cls._rows.split(".") if level])
    )
    assert columns
    assert [name for name, times in columns.items() if times > 1 or name == "silent"] == []
    assert [name for name in columns if name.endswith("_missing") and name.removesuffix("_missing") not in columns] in (
        [],
        ["source_missing"],  # of a finding, whose source is spread out
        ["left_missing", "right_missing"],
        ["stage_line_missing"],
        ["where_missing", "lock_missing"],  # of a thread that runs no Python, and waits for no lock
    )


@each("name", SCENES)
def test_every_scene_becomes_a_table_and_a_frame_that_agree(name: str) -> None:
    table, frame = arrow(name), SCENES[name].to_frame()
    assert (table.num_rows, table.column_names) == (len(frame), list(frame.columns))
    assert [pd.ArrowDtype(field.type) for field in table.schema] == list(frame.dtypes)
    assert [column.null_count for column in table.columns] == frame.isna().sum().tolist()
    assert frame.attrs == json.loads(table.schema.metadata[b"traindbg"])


@each("cls", {type(result) for result in SCENES.values()} - {SqlRows})
def test_columns_and_their_types_are_those_of_the_class(cls: type[Result]) -> None:
    schemas = [arrow(name).schema for name, result in SCENES.items() if type(result) is cls]
    always = [
        [(f.name, f.type) for f in schema if f.name != "silent" and not f.name.endswith("_missing")]
        for schema in schemas
    ]
    assert all(columns == always[0] for columns in always)


@each(
    "name, rows",
    [
        ("small, grads", 2 * 40),
        ("large, grads", 300 * 400),
        ("large, steps", 300 * 120),
        ("small, lr", 2 * 2),
        ("large, memory", 300 * 2),
        ("large, gpu", 64),
        ("small, targets", 2 + 1 + 1 + 2),
        ("small, attached", 2),
        ("large, report", 300),
        ("small, exported", 1),
        ("small, detached", 1),
        ("small, followed log", 1),
        ("empty, targets", 0),
        ("empty, stacks", 0),
        ("empty, diagnosis", 0),
        ("empty, steps", 1),
    ],
)
def test_there_is_a_row_for_each_thing_that_is_listed(name: str, rows: int) -> None:
    assert arrow(name).num_rows == rows


def test_a_row_of_stacks_is_a_frame() -> None:
    result = SMALL["stacks"]
    assert isinstance(result, Stacks)
    rows = as_records(result).rows
    assert len(rows) == sum(len(t.frames) or 1 for p in result.processes for t in p.threads)
    innermost = next(row for row in rows if row["depth"] == 0)
    assert innermost["line"] == result.processes[0].threads[0].frames[0].line


# --- tables, written out -------------------------------------------------------------------------------------------


def two_gradients() -> Grads:
    stats = (
        GradStat("a.weight", (2, 3), "float32", math.nan, 1.5, 0.25, 4, 2),
        GradStat("a.bias", (3,), "float32", 0.5, UNSCANNED, UNSCANNED, 0, 0),
        GradStat("b.bias", (), "float32", NO_GRADIENT, NO_GRADIENT, NO_GRADIENT, 0, 0, requires_grad=False),
    )
    rank = RankGrads(0, 70, "after optimizer step 9", True, math.nan, stats, None, "", 4, 0.01, 9)
    return Grads((rank,), (Silent(1, 71, "no answer in 10 s"),), (), same_step=True)


def test_gradients_written_out() -> None:
    made = as_records(two_gradients())
    rank = {
        "rank": 0,
        "pid": 70,
        "at": "after optimizer step 9",
        "safe_point": True,
        "total_norm": math.nan,
        "note": "",
    }
    rank |= {"after_step": 4, "cost_s": 0.01, "optimizer_step": 9}
    common = {"dtype": "float32", "requires_grad": True, "nan_count": 0, "inf_count": 0}
    first, second, third, lost = sparse(made.rows)
    assert math.isnan(first.pop("norm"))
    assert math.isnan(rank.pop("total_norm"))
    assert all(math.isnan(row.pop("total_norm")) for row in (first, second, third))
    assert first == {
        **rank, **common, "name": "a.weight", "shape": [2, 3], "max_abs": 1.5, "zeros": 0.25, "nan_count": 4, "inf_count": 2,
    }  # fmt: skip
    unscanned = {"max_abs_missing": "its norm is finite", "zeros_missing": "its norm is finite"}
    assert second == {**rank, **common, "name": "a.bias", "shape": [3], "norm": 0.5, **unscanned}
    nothing = {f"{name}_missing": "no gradient" for name in ("norm", "max_abs", "zeros")}
    assert third == {**rank, **common, "name": "b.bias", "shape": [], "requires_grad": False, **nothing}
    assert lost == {"rank": 1, "pid": 71, "silent": "no answer in 10 s"}
    assert list(made.columns) == [
        "rank", "pid", "at", "safe_point", "total_norm", "note", "after_step", "cost_s", "optimizer_step", "passes", "scale",
        "name", "shape", "dtype", "norm", "norm_missing", "max_abs", "max_abs_missing", "zeros", "zeros_missing",
        "nan_count", "inf_count", "requires_grad", "silent",
    ]  # fmt: skip
    assert made.about == {"same_step": True}


def test_variables_written_out() -> None:
    values = (EnvironValue("1", (0, 2)), EnvironValue(None, (1,)))
    row = EnvironRow("OMP_NUM_THREADS", values, "differs", "OpenMP", "threads of one process")
    rows = as_records(Environ("4711", (0, 1, 2), (row,))).rows
    common = {
        "name": "OMP_NUM_THREADS", "standing": "differs", "reader": "OpenMP", "meaning": "threads of one process", "advice": "",
        "source": None,
    }  # fmt: skip
    assert rows == [
        {**common, "value": "1", "rank": 0},
        {**common, "value": "1", "rank": 2},
        {**common, "value": None, "rank": 1},
    ]


def test_devices_written_out() -> None:
    lost = NotAvailable("the device is lost")
    result = GpuReport((device(0), device(1, processes=lost, throttle_reasons=("power cap",))), "580.01", NOT_HERE)
    made = as_records(result)
    one, other = sparse(made.rows)
    assert one["processes"] == 1
    assert one["throttle_reasons"] == []
    assert (other.get("processes"), other["processes_missing"]) == (None, "the device is lost")
    assert other["throttle_reasons"] == ["power cap"]
    assert made.about["cuda_driver"] == {"not_available": NOT_HERE.reason}
    assert made.kinds["processes"] is int
    assert made.kinds["throttle_reasons"] == list[str]


def test_a_result_that_lists_nothing_is_one_row() -> None:
    made = as_records(Exported("/tmp/a.parquet", "parquet", 10, 2, 1, 5, 10))
    assert made.rows == [
        {"path": "/tmp/a.parquet", "format": "parquet", "bytes": 10, "ranks": 2, "first_step": 1, "last_step": 5, "rows": 10,
         "thinned_rows": 0, "note": ""}
    ]  # fmt: skip
    assert made.about == {}


def test_a_finding_has_its_source_spread_out() -> None:
    made = as_records(SMALL["diagnosis"])
    assert {"source_file": str, "source_line": int, "source_lines": list[str]}.items() <= made.kinds.items()


def test_a_rank_without_rows_is_one() -> None:
    result = Steps((RankSteps(0, 70, (step(1), step(2))), RankSteps(1, 71, (), "torch has not been imported")))
    rows = as_records(result).rows
    assert [(row["rank"], row["step"], row["note"]) for row in rows] == [
        (0, 1, ""), (0, 2, ""), (1, None, "torch has not been imported"),
    ]  # fmt: skip


# --- ranks that gave no answer -------------------------------------------------------------------------------------


def test_a_silent_rank_that_is_listed_has_the_reason_in_its_rows() -> None:
    rows = as_records(attached(3, dead=(1,))).rows
    assert [(row["rank"], bool(row["silent"]), row["python"]) for row in rows] == [
        (0, False, "3.11.9"), (1, True, "3.11.9"), (2, False, "3.11.9"),
    ]  # fmt: skip


def test_there_is_no_column_for_silences_where_all_answered() -> None:
    assert "silent" not in as_records(memory(2)).columns


def test_a_silent_process_of_no_rank_is_a_row_of_its_own() -> None:
    made = as_records(replace(memory(2), silent=(Silent(None, 99, "it has ended"),)))
    assert sparse(made.rows)[-1] == {"pid": 99, "silent": "it has ended"}


def test_where_rows_are_of_no_rank_the_silent_ones_are_told_beside_them() -> None:
    result = Diagnosis("4711", "not known", (), (), silent=silent((1,)))
    assert [one["rank"] for one in result.to_frame().attrs["silent"]] == [1]
    assert "silent" not in result.to_frame()


# --- what is not there, and what is odd ----------------------------------------------------------------------------


def test_a_nan_is_not_a_missing_value() -> None:
    result = two_gradients()
    norm = result.to_arrow()["norm"].to_pylist()
    assert math.isnan(norm[0])
    assert norm[1:] == [0.5, None, None]
    frame = result.to_frame()
    assert frame["norm"].isna().tolist() == [False, False, True, True]
    assert (frame["norm"] != frame["norm"]).tolist() == [True, False, pd.NA, pd.NA]


def test_integers_stay_integers_beside_nothing() -> None:
    frame = two_gradients().to_frame()
    assert pa.types.is_int64(frame["nan_count"].dtype.pyarrow_dtype)
    assert frame["nan_count"].tolist() == [4, 0, 0, pd.NA]


@each(
    "size, kind, told",
    [
        (5, int, 5),
        (2**63 - 1, int, 2**63 - 1),
        (2**63, str, str(2**63)),
        (-(2**70), str, str(-(2**70))),
        (0.5, float, 0.5),
        ("many", str, "many"),
        (True, str, "true"),
        ([1], str, "[1]"),
        (None, int, None),
    ],
)
def test_a_column_of_what_is_not_of_its_kind_is_of_a_wider_one(size: Any, kind: type, told: Any) -> None:
    rows = (
        Target("1", size, "process", "python", "ada", 1.0, "torch"),
        Target("2", 7, "process", "python", "ada", 1.0, "torch"),
    )
    made = as_records(Targets(rows))
    assert made.kinds["pid"] is kind
    assert made.rows[0]["pid"] == told
    assert Targets(rows).to_arrow()["pid"].to_pylist() == [told, kind(7)]


@each("lr, kind", [((1, 0.5), float), ((2**70, None), str), (("x", 1), str), ((), float)])
def test_a_list_of_what_is_not_of_its_kind_is_of_a_wider_one(lr: Any, kind: type) -> None:
    result = Steps((RankSteps(0, 70, (step(1, lr=lr), step(2))),))
    assert as_records(result).kinds["lr"] == list[kind]  # type: ignore[valid-type]
    assert result.to_frame()["lr"].list.len().tolist() == [len(lr), 2]


def hostile(_: str, annotation: str, value: Any) -> Any:
    return "\udcff\ud800 \x00 <b>" if annotation in ("str", "str | None") else value


@each("name", [name for name in SCENES if not name.startswith("large")])
def test_text_that_is_no_unicode_is_written_as_escapes(name: str) -> None:
    result = changed(SCENES[name], hostile)
    texts = [value for row in as_records(result).rows for value in row.values() if isinstance(value, str)]
    assert all(text.encode() is not None for text in texts)
    if not isinstance(result, SqlRows):  # the columns of a query have names that differ
        assert result.to_frame().shape == SCENES[name].to_frame().shape
    if name == "small, targets":
        assert result.to_arrow()["command"][0].as_py() == "\\udcff\\ud800 \x00 <b>"


@each("name", [name for name in SCENES if not name.startswith("large")])
def test_nothing_need_have_been_measured(name: str) -> None:
    def nothing(_: str, annotation: str, value: Any) -> Any:
        return NOT_HERE if annotation.startswith("Maybe[") else value

    made = as_records(changed(SCENES[name], nothing))
    reasons = {value for row in made.rows for name, value in row.items() if name.endswith("_missing")}
    assert reasons <= {NOT_HERE.reason, None}
    assert changed(SCENES[name], nothing).to_frame().columns.tolist() == list(made.columns)


@dataclass(frozen=True)
class Odd(Result):
    """A result of what no column is made for."""

    _rows = ""
    table: Mapping[int, float]
    either: int | str
    anything: Any
    measured: Maybe[Mapping[str, int]]
    _hidden: int = 0


def test_mappings_are_json_and_objects_are_never_shown() -> None:
    made = as_records(Odd({1: math.nan}, 3, object(), NOT_HERE))
    assert made.rows == [
        {
            "table": '{"1": "NaN"}',
            "either": "3",
            "anything": None,
            "measured": None,
            "measured_missing": NOT_HERE.reason,
        }
    ]


@each("missing, verb", [("pandas", "to_frame"), ("pyarrow", "to_frame"), ("pyarrow", "to_arrow")])
def test_a_package_that_is_missing_is_named_with_what_installs_it(missing: str, verb: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, missing, None)
        with pytest.raises(MissingPiece, match=rf"needs {missing}; pip install pandas"):
            getattr(grads(1, 2), verb)()


def test_a_checkpoint_that_is_whole_says_so_beside_its_files() -> None:
    result = SMALL["checkpoint verified"]
    assert isinstance(result, Verified)
    assert result.to_frame().attrs["bytes_read"] == result.bytes_read
