"""What a job is asked for the tables of a query, and what becomes of those that give no answer. Played ranks, a real DuckDB."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from cases import each
from render_scenes import SMALL, silent
from support import needs_duckdb

from jupyter_traindbg.errors import BadQuery, DeadlineExceeded, TargetGone
from jupyter_traindbg.model import Attached, Problem, Rank, SqlRows
from jupyter_traindbg.questions import sql
from jupyter_traindbg.questions.base import Whom
from jupyter_traindbg.spread.base import Spread
from jupyter_traindbg.tables.base import Question

pytestmark = needs_duckdb

COUNTS = {"threshold": 700, "waiting": 1, "collections": 2, "collected": 3, "uncollectable": 0}
PROBES: dict[str, dict[str, Any]] = {
    "garbage": {
        "enabled": True,
        "frozen": 0,
        "generations": [COUNTS] * 3,
        "window_s": 1.0,
        "watched": {"count": 0, "pause_s": 0.0, "longest_s": 0.0, "places": []},
    },
    "info": {"step": 7, "usual_step_s": 0.1, "since_last_step_s": 0.1, "started_s": 1.7e9},
    "modules": {"modules": [], "steps": 0, "note": "no model was found"},
}


class Asked:
    """A job of some ranks whose questions are answered by hand, and which notes what it was asked."""

    name = "4711"

    def __init__(self, ranks: int = 2, **answers: Any) -> None:
        self._ranks, self._answers = ranks, answers
        self.asked: list[tuple[str, Mapping[str, Any]]] = []
        self._noting = threading.Lock()

    def attached(self, *, timeout: float) -> Attached:
        ranks = tuple(Rank(n, self._ranks, 70 + n, "injected", "3.11", "2.13") for n in range(self._ranks))
        return Attached(self.name, ranks, 0.0)

    def ask_agents(
        self, method: str, params: Mapping[str, Any], timeout: float, build: Callable[[int, int, Any], Any]
    ) -> Any:
        self._note(method, dict(params))
        answer = self._answers.get(method, PROBES[method])
        if isinstance(answer, BaseException):
            raise answer
        if callable(answer):
            answer = answer()
        return tuple(build(n, 70 + n, answer) for n in range(self._ranks)), ()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def ask(*, timeout: float, **keywords: Any) -> Any:
            self._note(name, keywords)
            answer = self._answers[name]
            if isinstance(answer, BaseException):
                raise answer
            return answer() if callable(answer) else answer

        return ask

    def _note(self, name: str, keywords: Mapping[str, Any]) -> None:
        with self._noting:
            self.asked.append((name, keywords))

    @property
    def names(self) -> list[str]:
        return sorted(name for name, _ in self.asked)


def ask(job: Asked, query: str, timeout: float = 60.0) -> SqlRows:
    return sql.ask(job, query, timeout=timeout)  # type: ignore[arg-type]


def test_only_what_the_query_names_is_asked_and_once() -> None:
    job = Asked(steps=SMALL["steps"], memory=SMALL["memory"], collectives=SMALL["collectives"])
    assert ask(job, "select 1 as one").to_dict()["rows"] == [{"one": 1}]
    assert job.names == []
    found = ask(job, "select count(*) from collectives c join groups g on g.rank = c.rank and g.name = c.group_name")
    assert job.names == ["collectives"]
    assert found.tables == ("collectives", "groups")
    assert found.rows[0][0] > 0


def test_a_wrong_query_asks_nobody() -> None:
    job = Asked()
    with pytest.raises(BadQuery):
        ask(job, "select nothing from steps")
    assert job.names == []


def test_ranks_share_the_rows_that_a_table_may_have() -> None:
    few, many = Asked(2, steps=SMALL["steps"]), Asked(300, steps=SMALL["steps"])
    for job in (few, many):
        ask(job, "select count(*) from steps")
    assert few.asked == [("steps", {"last": 32_768})]
    assert many.asked == [("steps", {"last": 218})]


def test_rows_of_all_ranks_are_in_one_table_and_the_answer_says_whence() -> None:
    found = ask(Asked(3), "select rank, generation, frozen from gc where generation = 2 order by rank desc")
    assert found.rows == ((2, 2, 0), (1, 2, 0), (0, 2, 0))
    assert [(c.name, c.type) for c in found.columns] == [
        ("rank", "BIGINT"),
        ("generation", "BIGINT"),
        ("frozen", "BIGINT"),
    ]
    assert (found.tables, found.silent, found.notes) == (("gc",), (), ())
    assert found.taken_s >= found.measured_s > 0


def test_columns_of_one_name_are_told_apart() -> None:
    found = ask(Asked(), "select 1 as a, 2 as a, 3 as a_2, 4 as a")
    assert found.to_dict()["rows"] == [{"a": 1, "a_2": 2, "a_2_2": 3, "a_3": 4}]


def test_who_gave_no_answer_is_named_once() -> None:
    answers = {name: SMALL[name].about(None) for name in ("steps", "memory")}
    quiet = {name: type(answer)(answer.ranks, silent([9])) for name, answer in answers.items()}  # type: ignore[attr-defined]
    found = ask(Asked(**quiet), "select count(*) from steps join memory using (rank)")
    assert [one.rank for one in found.silent] == [9]


def test_a_table_that_cannot_be_had_is_empty_and_says_why_and_alone_it_is_the_error() -> None:
    job = Asked(gpu=TargetGone("the host has gone"), steps=SMALL["steps"])
    found = ask(job, "select count(g.uuid) from steps s left join gpus g using (rank)")
    assert found.rows == ((0,),)
    assert found.notes == ("gpus is empty: the host has gone; `traindbg targets` shows what can be attached to",)
    with pytest.raises(TargetGone, match="the host has gone"):
        ask(job, "from gpus")


def test_why_nothing_was_measured_and_what_ranks_note_is_told() -> None:
    nothing = type(SMALL["gpu"])((), *(SMALL["gpu"].driver,) * 2, Problem("there is no driver"))  # type: ignore[attr-defined]
    assert ask(Asked(gpu=nothing), "from gpus").notes == ("gpus is empty: there is no driver",)
    assert ask(Asked(3), "from modules").notes == ("ranks 0-2 (3): no model was found",)


def test_what_waits_for_a_step_is_asked_last_each_with_its_share_of_the_time() -> None:
    asked: list[str] = []
    limits: dict[str, float] = {}

    class Timed(Asked):
        def __getattr__(self, name: str) -> Callable[..., Any]:
            def ask_one(*, timeout: float, **_: Any) -> Any:
                asked.append(name)
                limits[name] = timeout
                return SMALL[name]

            return ask_one

    job = Timed()
    query = "select count(*) from memory, parameters, steps, modules where memory.rank = steps.rank"
    ask(job, query, timeout=60.0)
    assert asked[0] == "steps", "which is there at once"
    assert set(asked[1:]) == {"memory", "grads"}
    (_, modules) = job.asked[-1]
    assert limits["steps"] > 40
    assert limits["memory"] < 20, "the first of three"
    assert 10 < modules["deadline_s"] < 54


def test_a_question_that_is_late_does_not_hold_up_the_answer() -> None:
    never = threading.Event()
    job = Asked(steps=lambda: never.wait(60) and None, lr=SMALL["lr"])
    began = time.monotonic()
    try:
        found = ask(job, "select count(*) from param_groups left join steps using (rank)", timeout=3.0)
    finally:
        never.set()
    assert time.monotonic() - began < 30
    assert found.rows[0][0] > 0
    assert found.notes[0].startswith("steps is empty: no answer came in")


@each("late", [True, False])
def test_ranks_are_there_also_where_no_agent_answers(late: bool) -> None:
    never = threading.Event()
    job = Asked(info=(lambda: never.wait(60)) if late else DeadlineExceeded("no answer came in 2 s", "ask again"))
    try:
        found = ask(job, "select rank, answers, not_available from ranks order by rank", timeout=2.0 if late else 60.0)
    finally:
        never.set()
    assert [row[:2] for row in found.rows] == [(0, False), (1, False)]
    assert all("no answer came in" in row[2] for row in found.rows)


def test_a_query_has_the_time_that_is_left() -> None:
    with pytest.raises(DeadlineExceeded):
        ask(Asked(), "with recursive t(n) as (select 1 union all select n + 1 from t) select count(*) from t", 1.5)


def test_what_there_is_is_listed_without_a_job() -> None:
    told = sql.listed()
    assert [table.table for table in told.tables] == sorted(table.table for table in told.tables)
    assert {"steps", "ranks"} <= {table.table for table in told.tables}
    steps = next(table for table in told.tables if table.table == "steps")
    assert ("data_wait_s", "DOUBLE") in [(column.name, column.type) for column in steps.columns]
    assert (steps.columns[-1].name, steps.columns[0].meaning) == ("not_available", "the rank")


def test_a_ray_job_asks_it_from_here_by_its_own_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sql.WHOM is Whom.OTHERS
    seen: list[Any] = []
    monkeypatch.setattr(sql, "ask", lambda job, query, *, timeout: seen.append((job, query, timeout)))
    job = Spread.__new__(Spread)
    job.sql("select 1", timeout=3.0)
    assert seen == [(job, "select 1", 3.0)]


@each("asked", [Question("steps", {"last": 3})])
def test_a_question_is_the_same_as_another_one_with_the_same_words(asked: Question) -> None:
    assert asked == Question("steps", {"last": 3})
    assert asked != Question("steps")


@pytest.fixture(autouse=True)
def no_helper_is_left() -> Iterator[None]:
    import os

    from jupyter_traindbg.outside import procfs

    yield
    left = [p.pid for p in procfs.descendants(os.getpid()) if "duck_helper" in " ".join(procfs.command(p.pid))]
    assert left == []
