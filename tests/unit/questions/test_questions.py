"""Whoever offers questions finds them by their files: `Job`, the verbs, the report. And one is as another."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Any

import pytest
from asked_ranks import AskedRanks
from cases import each

from jupyter_traindbg import commands, questions
from jupyter_traindbg.job import Job
from jupyter_traindbg.magics import base
from jupyter_traindbg.model import Result
from jupyter_traindbg.questions import memory
from jupyter_traindbg.questions.base import DEADLINE_S, Whom
from jupyter_traindbg.ray.job import RayJob
from jupyter_traindbg.report.running import collectors

FILE = Path(questions.__file__)


def test_the_questions_are_the_files_of_the_folder() -> None:
    files = {path.stem for path in FILE.parent.glob("*.py")} - {"__init__", "base"}
    assert set(questions.names()) == files >= {"memory", "stacks", "steps", "threads"}


@each("name", questions.names())
def test_a_question_says_whom_it_asks_and_has_a_deadline(name: str) -> None:
    question = questions.load(name)
    assert isinstance(question.WHOM, Whom)
    job, *keywords = inspect.signature(question.ask).parameters.values()
    assert job.name == "job"
    if question.WHOM is Whom.OTHERS:  # which is asked from here
        keywords = [keyword for keyword in keywords if keyword.default is not keyword.empty]
    assert all(keyword.kind is keyword.KEYWORD_ONLY for keyword in keywords), "Ray's helpers are asked by keywords"
    assert keywords[-1].name == "timeout"
    follows_from_its_window = hasattr(question, "deadline_s")
    assert keywords[-1].default == (None if follows_from_its_window else DEADLINE_S)
    assert (question.ask.__doc__ or "").strip()
    assert (question.__doc__ or "").strip().endswith("."), "the help of its verb"


@each("kind", [Job, RayJob])
@each("name", questions.names())
def test_a_job_has_each_question_as_a_method(kind: type[Job], name: str) -> None:
    method = getattr(kind, name)
    asked = inspect.signature(questions.load(name).ask).parameters
    assert list(inspect.signature(method).parameters)[1:] == list(asked)[1:]
    assert name in dir(kind)


def test_type_checkers_are_told_of_each_question() -> None:
    (askable,) = (
        node for node in ast.parse(FILE.read_text()).body if isinstance(node, ast.ClassDef) and node.name == "Askable"
    )
    (told,) = (node for node in askable.body if isinstance(node, ast.If))
    declared = [
        target.id
        for line in told.body
        if isinstance(line, ast.Assign)
        for target in line.targets
        if isinstance(target, ast.Name)
    ]
    assert sorted(declared) == list(questions.names())


def test_a_question_is_asked_of_the_job_that_it_is_a_method_of(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def ask(job: Any, *, timeout: float = 1.0) -> Any:
        asked.append((job, timeout))

    monkeypatch.setattr(memory, "ask", ask)
    job = Job.__new__(Job)
    job.memory(timeout=3.0)
    assert asked == [(job, 3.0)]


def test_a_verb_needs_no_more_than_a_question() -> None:
    parser = base.parser("stacks")
    assert (parser.description or "").startswith("Show what every thread")
    assert parser.parse_args(["4711", "--no-children"]).children is False
    assert parser.parse_args([]).children is True
    assert base.parser("grads").parse_args(["--first-nan"]).first_nan is True
    assert "threads" in commands.verbs()
    assert "collectives" not in commands.verbs(), "its verb is nccl-check"


def test_a_report_has_the_questions_that_say_so() -> None:
    parts = collectors()
    for title in ("memory", "steps", "learning_rates", "collectives", "threads"):
        assert parts[title].TITLE
        assert parts[title].FROM_JOB
    assert "gpu_report" not in parts


def test_steps_that_were_shown_are_kept() -> None:
    job = AskedRanks(lambda *_: ((), ()))
    result: Result = questions.load("steps").ask(job, timeout=1.0)  # type: ignore[arg-type]
    assert (result.to_dict()["ranks"], job.shown) == ([], 1)
