"""SQL on real jobs: two ranks that train over gloo, a hung one, one of which a rank is stopped, a notebook's own training."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import REPO, Program, Start, launch, needs_duckdb, torchrun, until

import traindbg
from jupyter_traindbg import cli, tables
from jupyter_traindbg.errors import TargetGone

pytestmark = needs_duckdb

PAGE = (REPO / "docs" / "sql.md").read_text(encoding="utf-8")
QUERIES = re.findall(r"```sql\n(.*?)\n```", PAGE, re.DOTALL)
MAY_BE_EMPTY = ("from findings", "from gpus", "grad_nan_count", "standing in")
"""What asks for what is wrong, or for GPUs: a sound training on a machine without has none."""


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """Two ranks under DDP."""
    folder = tmp_path_factory.mktemp("sql")
    port = str(20000 + os.getpid() % 20000)
    program = str(REPO / "notebooks" / "lr_train.py")
    started = launch(folder, program, "--minutes", "20", command=torchrun(2, port))
    try:
        started.wait_for("step 20 ", 180)
        yield started
    finally:
        started.stop()


@pytest.fixture(scope="module")
def job(training: Program) -> Iterator[traindbg.Job]:
    with traindbg.attach(f"torchrun:{training.pid}") as job:
        until(lambda: min(len(rank.steps) for rank in job.steps().ranks) > 30)
        job.set_lr(scale=0.5)
        until(lambda: job.sql("from events").rows)
        yield job


def one(job: traindbg.Job, query: str) -> dict[str, Any]:
    (row,) = job.sql(query).to_dict()["rows"]
    return dict(row)


# --- two ranks that train


def test_the_page_has_a_query_for_each_thing_that_the_guide_asks() -> None:
    assert len(QUERIES) > 20
    for table in (
        "stacks",
        "threads",
        "batches",
        "ranks",
        "collectives",
        "parameters",
        "modules",
        "gpus",
        "steps",
        "memory",
    ):
        assert any(re.search(rf"\b{table}\b", query) for query in QUERIES)


@pytest.mark.parametrize("query", QUERIES, ids=range(len(QUERIES)))
def test_every_query_of_the_page_is_answered(job: traindbg.Job, query: str) -> None:
    answer = job.sql(query, timeout=30)
    assert answer.silent == ()
    assert answer.rows or any(words in query for words in MAY_BE_EMPTY), answer.notes
    assert answer.to_arrow().num_rows == len(answer.rows)


@pytest.mark.parametrize("table", tables.names())
def test_every_table_has_rows_of_both_ranks_or_says_why_not(job: traindbg.Job, table: str) -> None:
    answer = job.sql(f"from {table}", timeout=30)
    assert answer.tables == (table,)
    assert answer.silent == ()
    if table in ("findings", "gpus"):
        return
    assert answer.rows, answer.notes
    names = [column.name for column in answer.columns]
    if table != "log_lines":
        assert {row[names.index("rank")] for row in answer.rows} == {0, 1}
    filled = {
        name
        for name, values in zip(names, zip(*answer.rows, strict=True), strict=True)
        if any(v is not None for v in values)
    }
    known = {"not_available", *(n for n in names if n.startswith("cuda_"))}
    assert len(filled | known) > len(names) / 2, sorted(set(names) - filled)


def test_the_figures_are_those_of_the_verbs(job: traindbg.Job) -> None:
    ranks = {rank.rank: rank for rank in job.ranks}
    for row in job.sql("select rank, pid, world_size, answers, step from ranks").to_dict()["rows"]:
        assert (row["pid"], row["world_size"], row["answers"]) == (ranks[row["rank"]].pid, 2, True)
        assert row["step"] > 30
    rate = one(job, "select lr, effective_lr, optimizer_class from param_groups where rank = 1")
    assert rate["effective_lr"] == pytest.approx(rate["lr"] / 2)
    parts = "data_wait_s + forward_s + backward_s + optimizer_s + other_s"
    sums = one(job, f"select avg(duration_s) as whole, avg({parts}) as parts from steps")
    assert sums["parts"] == pytest.approx(sums["whole"], rel=0.01)
    batches = one(
        job,
        "select count(distinct rank) as ranks, min(samples) as least, any_value(num_workers) as workers from batches",
    )
    assert batches == {"ranks": 2, "least": 192, "workers": 0}
    held = one(job, "select sum(parameters_bytes) as bytes from memory where rank = 0")["bytes"]
    assert one(job, "select sum(elements) * 4 as bytes from parameters where rank = 0")["bytes"] == held
    assert one(job, "select sum(parameters_bytes) as bytes from modules where rank = 0")["bytes"] == held
    times = one(job, "select sum(forward_self_s) as own, max(forward_s) as whole from modules where rank = 0")
    assert times["own"] == pytest.approx(times["whole"], rel=0.2)
    group = one(job, "select backend, ranks, size from groups where rank = 0")
    assert group == {"backend": "gloo", "ranks": [0, 1], "size": 2}
    (event,) = {row[0] for row in job.sql("select text from events where kind = 'lr'").rows}
    assert event == "learning rate: the schedule x 0.5"
    log = one(
        job, "select count(*) as lines, count(distinct file) as files from log_lines where text like 'step %rank 1%'"
    )
    assert log["lines"] > 20
    process = one(job, "select command, threads, rss_bytes from processes where rank = 1 and role = 'rank'")
    assert "lr_train.py" in process["command"]
    assert process["rss_bytes"] > 50e6


def test_a_terminal_prints_records_and_rows(training: Program, job: traindbg.Job) -> None:
    asked = [sys.executable, "-m", "jupyter_traindbg.cli", "sql", f"torchrun:{training.pid}"]
    query = "select rank, avg(data_wait_s) as wait_s from steps group by rank order by rank"
    told = subprocess.run([*asked, query, "--json"], capture_output=True, text=True, timeout=60, cwd=REPO, check=True)
    records = json.loads(told.stdout)
    assert [row["rank"] for row in records["rows"]] == [0, 1]
    assert all(0 < row["wait_s"] < 60 for row in records["rows"])
    told = subprocess.run([*asked, query, "--csv"], capture_output=True, text=True, timeout=60, cwd=REPO, check=True)
    assert told.stdout.splitlines()[0] == "rank,wait_s"
    refused = subprocess.run(
        [*asked, "copy steps to 'x'"], capture_output=True, text=True, timeout=60, cwd=REPO, check=False
    )
    assert (refused.returncode, refused.stdout) == (cli.BAD_USAGE, "")
    assert refused.stderr.startswith("traindbg: COPY is not run here; ")
    assert refused.stderr.count("\n") == 1


def test_an_answer_is_drawn(job: traindbg.Job) -> None:
    picture = job.sql(
        "select rank, step, loss, data_wait_s from steps where duration_s is not null order by rank, step"
    ).plot()
    assert picture.of == "query"
    assert [axes.get_title(loc="left") for axes in picture.figure.axes] == ["loss", "data_wait_s"]


# --- a hung job, and a rank that does not answer


def test_a_hung_job_is_asked_all_the_same(start: Start, free_port: str) -> None:
    program = start("hangs/rank0_branch.py", command=torchrun(2, free_port), ready="ready", timeout_s=120)
    with traindbg.attach(f"torchrun:{program.pid}") as job:
        until(lambda: "stuck" in str(job.diagnose().state))
        stands = job.sql(
            "select rank, function, line from stacks where training and not library and file like '%rank0_branch.py'"
        )
        assert {row[0] for row in stands.rows} == {0, 1}
        waiting = job.sql("select distinct rank from collectives where state <> 'completed'")
        assert waiting.rows, "for what another one does not come to"
        read = job.sql("select rank, grad_norm, read_when from parameters", timeout=20)
        assert {row[0] for row in read.rows} == {0, 1}
        assert all("not at a safe point" in row[2] for row in read.rows)
        times = job.sql("select distinct steps_watched, not_available from modules", timeout=20)
        assert {row[0] for row in times.rows} == {0}
        assert all("no step came" in row[1] for row in times.rows)
        counted = job.sql("select distinct rank, counted_when from objects", timeout=20)
        assert {row[1] for row in counted.rows} == {"idle"}
        wrong = job.sql(
            "select f.code, r.rank from findings f join ranks r on list_contains(f.ranks, r.rank)", timeout=20
        )
        assert wrong.rows


def test_a_rank_that_is_stopped_is_named_and_the_others_answer(start: Start, free_port: str) -> None:
    program = start("train.py", "--sleep", "0.01", command=torchrun(2, free_port), timeout_s=90)
    with traindbg.attach(f"torchrun:{program.pid}") as job:
        until(lambda: min(len(rank.steps) for rank in job.steps().ranks) > 3)
        stopped = job.ranks[1].pid
        os.kill(stopped, signal.SIGSTOP)
        try:
            answer = job.sql(
                "select r.rank, r.answers, r.not_available, count(s.step) as steps from ranks r left join steps s using (rank)"
                " group by all order by 1",
                timeout=4,
            )
        finally:
            os.kill(stopped, signal.SIGCONT)
    first, second = answer.to_dict()["rows"]
    assert (first["answers"], first["steps"] > 3) == (True, True)
    assert (second["answers"], second["steps"]) == (False, 0)
    assert "step" in second["not_available"]
    assert [one.rank for one in answer.silent] == [1]


def test_a_process_that_has_ended_is_said_to_have(start: Start) -> None:
    program = start("train.py", "--sleep", "0.01")
    with traindbg.attach(program.pid) as job:
        os.kill(program.pid, signal.SIGKILL)
        program.wait()
        with pytest.raises(TargetGone, match="has ended"):
            job.sql("select count(*) from gc", timeout=4)
        (row,) = job.sql("select answers, not_available from ranks", timeout=4).rows
    assert row[0] is False
    assert "has ended" in row[1]


# --- this process


def test_this_process_is_asked_too() -> None:
    with traindbg.attach("self") as job:
        answer = job.sql("select rank, generation, enabled from gc order by generation")
        assert [row[1] for row in answer.rows] == [0, 1, 2]
        here = job.sql("select count(*) from stacks where function like '%test_this_process_is_asked_too%'")
        assert here.rows[0][0] > 0


NOTEBOOK = [
    "%load_ext traindbg",
    "import torch\nmodel = torch.nn.Linear(4, 1)\noptimizer = torch.optim.Adam(model.parameters())",
    "%attach self",
    "for _ in range(30):\n    optimizer.zero_grad(); model(torch.ones(2, 4)).sum().backward(); optimizer.step()",
    "%sql select count(*) from steps",
    "%%sql\nselect optimizer_class, parameters\nfrom param_groups;",
    "%sql select count(distinct name) from parameters where grad_norm is not null",
    "rows = %sql from ranks\nprint(len(rows.rows), rows.to_frame()['rank'].tolist())",
    "%sql selec 1",
    "%sql",
]


def test_a_notebook_asks_its_own_training(tmp_path: Path) -> None:
    import nbformat
    from nbclient import NotebookClient

    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in NOTEBOOK])
    NotebookClient(book, timeout=120, kernel_name="python3", allow_errors=True).execute(cwd=str(tmp_path))
    shown = [
        "".join(
            o.get("text", "") + o.get("data", {}).get("text/plain", "") + "".join(o.get("traceback", []))
            for o in cell.outputs
        )
        for cell in book.cells
    ]
    assert shown[4].startswith("count_star() = 30"), shown[4]
    assert "Adam" in shown[5]
    assert "= 2" in shown[6], shown[6]
    assert shown[7] == "1 [0]\n"
    assert "BadQuery" in shown[8]
    assert 'syntax error at or near "selec"' in shown[8]
    assert "tables can be asked in SQL" in shown[9]
