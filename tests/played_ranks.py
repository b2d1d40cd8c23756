"""Ranks of a checkpoint that are played at the lowest layer, `Link.call`: they answer as they are told and write files of three bytes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jupyter_traindbg.agent.checkpoint import files
from jupyter_traindbg.agent.checkpoint.seal import file_bytes
from jupyter_traindbg.agent.saying import unpacked
from jupyter_traindbg.attach.base import Link
from jupyter_traindbg.model import Rank

GOING: dict[str, Any] = {"since_last_step_s": 0.01, "usual_step_s": 0.02}
STILL: dict[str, Any] = {"since_last_step_s": 30.0, "usual_step_s": 0.02}
SURVEY: dict[str, Any] = {
    "kind": "replicated",
    "unsupported": None,
    "bytes": 1000,
    "own_steps": [12],
    "step": 5,
    "updating": False,
    "marks": [[4, 0, 11, 40], [5, 0, 12, 50]],
    "fingerprint": "f",
    "models": [],
    "optimizers": [],
    "boundary": {"step": 5, "where": "before the next batch"},
    "actions": [],
    **GOING,
}


NOT_YET: dict[str, Any] = {"done": False, "at_step": None, "value": None}


class Played(Link):
    """A rank that answers as it is told: `says` replaces an answer, by a dict to merge, an error to raise or a function."""

    def __init__(self, rank: int, world_size: int, said: list[tuple[int, str]]) -> None:
        super().__init__(os.getpid(), self._never, rank, world_size)
        self.said = said
        self.says: dict[str, Any] = {}
        self.params: dict[str, dict[str, Any]] = {}

    def _never(self, deadline_s: float) -> Any:
        raise AssertionError("a played rank is not entered")

    def identify(self, deadline_s: float) -> Rank:
        return Rank(self.rank, self.world_size, self.pid, "played", "3.11", "2.13", ())

    def call(self, method: str, params: dict[str, Any], deadline_s: float) -> Any:
        do = method if method == "pace" else str(params["do"])
        self.said.append((self.rank, do))
        self.params[do] = params
        instead = self.says.get(do)
        if isinstance(instead, BaseException):
            raise instead
        answer = getattr(self, f"_{do}")(params)
        if callable(instead):
            return instead(params, answer)
        return {**answer, **instead} if instead else answer

    def _look(self, params: dict[str, Any]) -> dict[str, Any]:
        return files.look(params["directory"], params["ident"], params["names"])

    store: dict[str, str]

    def _cast(self, params: dict[str, Any]) -> dict[str, Any]:
        return {"stands": self.store.setdefault(params["key"], params["wish"])}

    def _claim(self, params: dict[str, Any]) -> dict[str, Any]:
        return {"claimed": True}

    def _free(self, params: dict[str, Any]) -> dict[str, Any]:
        return {}

    def _forget(self, params: dict[str, Any]) -> dict[str, Any]:
        return {}

    def _survey(self, params: dict[str, Any]) -> dict[str, Any]:
        return SURVEY

    def _pace(self, params: dict[str, Any]) -> dict[str, Any]:
        told = {key: SURVEY[key] for key in ("step", "marks", "since_last_step_s", "usual_step_s", "updating")}
        return {**told, "mean_step_s": 0.02, "directory": self.directory}

    directory = "/tmp"

    def _begin(self, params: dict[str, Any]) -> dict[str, Any]:
        self.directory_of_job = params["directory"]
        self.partial = Path(params["directory"]).parent / f".{Path(params['directory']).name}.partial-{params['ident']}"
        self.partial.mkdir()
        return {}

    def _prepare(self, params: dict[str, Any]) -> dict[str, Any]:
        return {"bytes": 1000}

    def _outcome(self, params: dict[str, Any]) -> dict[str, Any]:
        value = {
            "pause_s": 0.001 * (self.rank + 1),
            "step": 6,
            "own_steps": [13],
            "where": "before the next batch",
            "loaders": 1,
        }
        return {"done": True, "aborted": False, "at_step": 6, "value": {**value, "notes": [], "others": {}}}

    def _take(self, params: dict[str, Any]) -> dict[str, Any]:
        return {
            "step": 5,
            "own_steps": [12],
            "where": "after the optimizer step",
            "loaders": 1,
            "notes": [],
            "others": {},
        }

    def _plan(self, params: dict[str, Any]) -> dict[str, Any]:
        return {"plan": {"of": self.rank}}

    def _merge(self, params: dict[str, Any]) -> dict[str, Any]:
        return {"plans": {str(rank): {"final": plan["of"]} for rank, plan in params["plans"].items()}}

    def _write(self, params: dict[str, Any]) -> dict[str, Any]:
        return {}

    def _progress(self, params: dict[str, Any]) -> dict[str, Any]:
        files = {f"rank-{self.rank}.pt": {"bytes": 3, "sha256": "0" * 64, "rank": self.rank}}
        return {
            "written": 3,
            "total": 3,
            "done": True,
            "error": None,
            "files": files,
            "results": None,
            "not_finite": [],
        }

    def _commit(self, params: dict[str, Any]) -> dict[str, Any]:
        for name in params["files"]:
            (self.partial / name).write_bytes(b"abc")
        notes = params["manifest"]["notes"]
        told = {"notes": [str(unpacked(note)) for note in notes], "said": notes, "files": params["files"]}
        (self.partial / "manifest.json").write_bytes(file_bytes({**params["manifest"], **told}))
        self.partial.rename(self.directory_of_job)
        return {"directory": self.directory_of_job, "bytes": 3}

    def _cancel(self, params: dict[str, Any]) -> dict[str, Any]:
        return {}

    def _abort(self, params: dict[str, Any]) -> dict[str, Any]:
        return {}


Cast = Callable[..., list[Played]]


@pytest.fixture
def cast(tmp_path_factory: pytest.TempPathFactory) -> Cast:
    """``cast(2)``: two played ranks; keywords for all of them replace their answers."""

    def build(ranks: int, *, world_size: int = 0, **says: Any) -> list[Played]:
        said: list[tuple[int, str]] = []
        store: dict[str, str] = {}
        links = [Played(rank, world_size or ranks, said) for rank in range(ranks)]
        for link in links:
            link.directory = str(tmp_path_factory.mktemp("agent"))
            link.store = store
            link.says.update(says)
        return links

    return build


def did(links: list[Played], rank: int | None = None) -> list[str]:
    return [do for who, do in links[0].said if rank in (None, who)]
