"""The requests of the side panel. All need the server's authentication, and whatever is not GET its XSRF token.

GET only looks: it brings nothing into any process. Nothing that may block runs on the event loop.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from jupyter_server.extension.handler import ExtensionHandlerMixin
from tornado import web

from .._version import __version__
from ..errors import DeadlineExceeded, TraindbgError, UnknownTarget, UsageError
from ..language import later, text
from . import links
from .threads import Busy

if TYPE_CHECKING:
    from .app import TraindbgServer

__all__ = ["HANDLERS"]

LOOK_S, QUESTION_S, REPORT_S = 15.0, 30.0, 60.0
MOST_TEXT = 4096
READ_ONLY = {
    "message": later("this server lets nobody change training jobs from the panel"),
    "next_step": later(
        "whoever runs it can allow that: c.TraindbgServer.allow_actions = True in jupyter_server_config.py; in a notebook, "
        "`%checkpoint` works without"
    ),
}


class Handler(ExtensionHandlerMixin, APIHandler):
    """What all have in common."""

    auth_resource = "traindbg"

    @property
    def app(self) -> TraindbgServer:
        app: TraindbgServer = self.settings["traindbg"]
        return app

    def words(self, name: str, *, needed: bool = True) -> str:
        """The text called `name` of the request's JSON body. Raises `UsageError`."""
        try:
            body = json.loads(self.request.body or b"{}")
        except ValueError as e:
            raise UsageError(text("the request is not JSON")) from e
        given = body.get(name) if isinstance(body, dict) else None
        if given is None and not needed:
            return ""
        if not isinstance(given, str) or len(given) > MOST_TEXT or (needed and not given):
            raise UsageError(text("{name!r} is no text of at most {most} characters", name=name, most=MOST_TEXT))
        return given

    def refuse(self, status: HTTPStatus, message: str, next_step: str, kind: str) -> None:
        self.set_status(status)
        self.finish(json.dumps({"message": message, "next_step": next_step, "error": kind}))

    async def answer(self, ask: Callable[[], Any]) -> None:
        """Finish with what `ask` awaits, or with why there is none."""
        try:
            result = await ask()
        except TraindbgError as e:
            self.refuse(_status(e), *e.parts(), type(e).__name__)
        else:
            self.finish(json.dumps(result))


def _status(error: TraindbgError) -> HTTPStatus:
    for kind, status in (
        (Busy, HTTPStatus.SERVICE_UNAVAILABLE),
        (DeadlineExceeded, HTTPStatus.GATEWAY_TIMEOUT),
        (UnknownTarget, HTTPStatus.NOT_FOUND),
        (UsageError, HTTPStatus.BAD_REQUEST),
    ):
        if isinstance(error, kind):
            return status
    return HTTPStatus.UNPROCESSABLE_ENTITY


class JobsHandler(Handler):
    """GET: the list of jobs."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        async def ask() -> Any:
            seen = await self.app.looks.run(later("looking for training jobs"), self.app.jobs.look, LOOK_S)
            why_not = {} if self.app.allow_actions else {name: text(words) for name, words in READ_ONLY.items()}
            actions = {"allowed": self.app.allow_actions, **why_not}
            return {**seen, "version": __version__, "actions": actions}

        await self.answer(ask)


class LinkHandler(Handler):
    """GET: what a link opens, by the name of a file or a page."""

    @web.authenticated
    @authorized
    async def get(self, what: str) -> None:
        root, file, reference = (
            self.app.jobs.root,
            self.get_query_argument("file", ""),
            self.get_query_argument("reference", ""),
        )
        work: dict[str, Callable[[], Any]] = {
            "place": lambda: links.place(root, file),
            "page": lambda: links.page(reference),
        }
        await self.answer(lambda: self.app.looks.run(later("opening a link"), work[what], LOOK_S))


class VerbHandler(Handler):
    """POST: one question about one job."""

    @web.authenticated
    @authorized
    async def post(self, verb: str) -> None:
        await self.answer(lambda: self._run(verb))

    async def _run(self, verb: str) -> Any:
        jobs, target = self.app.jobs, self.words("target")
        directory = self.words("directory", needed=False) if verb == "checkpoint/plan" else ""
        work: dict[str, Callable[[], Any]] = {
            "follow": lambda: jobs.follow(target),
            "unfollow": lambda: jobs.unfollow(target),
            "stacks": lambda: jobs.stacks(target),
            "diagnose": lambda: jobs.diagnose(target),
            "report": lambda: jobs.report(target),
            "checkpoint/plan": lambda: jobs.plan(target, directory or None),
        }
        seconds = REPORT_S if verb == "report" else QUESTION_S
        answer = await self.app.questions.run(verb.replace("/", " "), work[verb], seconds)
        if verb == "follow":
            self.app.follow_up()
        return answer or {}


class CheckpointHandler(Handler):
    """POST: write an emergency checkpoint. Answers at once with the task that does it; refused where actions are not allowed."""

    @web.authenticated
    @authorized
    async def post(self) -> None:
        if not self.app.allow_actions:
            self.refuse(HTTPStatus.FORBIDDEN, text(READ_ONLY["message"]), text(READ_ONLY["next_step"]), "ReadOnly")
            return
        await self.answer(self._begin)

    async def _begin(self) -> Any:
        jobs, target, directory = self.app.jobs, self.words("target"), self.words("directory")
        jobs.place(directory)
        task = self.app.tasks.begin("checkpoint", lambda progress: jobs.checkpoint(target, directory, progress))
        return {"task": task}


class TaskHandler(Handler):
    """GET: how far a task is."""

    @web.authenticated
    @authorized
    async def get(self, ident: str) -> None:
        task = self.app.tasks.get(ident)
        if task is None:
            self.refuse(
                HTTPStatus.NOT_FOUND, text("there is no such task (any more)"), text("begin it again"), "UnknownTask"
            )
            return
        self.finish(json.dumps(task.to_dict()))


HANDLERS: list[tuple[str, type[Handler]]] = [
    (r"/jupyter-traindbg/jobs", JobsHandler),
    (r"/jupyter-traindbg/(follow|unfollow|stacks|diagnose|report|checkpoint/plan)", VerbHandler),
    (r"/jupyter-traindbg/(place|page)", LinkHandler),
    (r"/jupyter-traindbg/checkpoint", CheckpointHandler),
    (r"/jupyter-traindbg/tasks/([A-Za-z0-9_-]+)", TaskHandler),
]
