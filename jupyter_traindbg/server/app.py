"""`TraindbgServer`: the extension as Jupyter Server loads it, with its settings."""

from __future__ import annotations

import asyncio
import os

from jupyter_server.extension.application import ExtensionApp
from traitlets import Bool

from ..language import language, later
from .handlers import HANDLERS
from .tasks import Tasks
from .threads import Threads

__all__ = ["TraindbgServer"]

TICK_S = 10.0
LOOKS, QUESTIONS = 4, 8
"""So many lists and so many questions about single jobs are under way at most; each is bounded in time as well."""


class TraindbgServer(ExtensionApp):
    """The training jobs of this host for JupyterLab's side panel."""

    name = "jupyter_traindbg"

    allow_actions = Bool(
        False,
        help="""Whether pages of this server may change training jobs: write an emergency checkpoint. Looking (which brings an
        agent into a job when that is asked for) is always allowed to whoever may use this server.""",
    ).tag(config=True)

    def initialize_settings(self) -> None:
        from .jobs import Jobs

        assert self.serverapp is not None
        root = os.path.expanduser(getattr(self.serverapp.contents_manager, "root_dir", "") or self.serverapp.root_dir)
        self.jobs = Jobs(os.path.abspath(root))
        self.looks, self.questions, self.tasks = Threads(LOOKS), Threads(QUESTIONS), Tasks()
        self._ticking: asyncio.TimerHandle | None = None
        self.settings["traindbg"] = self
        # What a page is given before its plugins begin: they say the labels of commands once.
        self.serverapp.web_app.settings.setdefault("page_config_data", {})["traindbgLanguage"] = language()

    def initialize_handlers(self) -> None:
        self.handlers.extend(HANDLERS)

    def follow_up(self) -> None:
        """Look after the followed jobs as long as there are any. On the event loop."""
        if self._ticking is None:
            self._ticking = asyncio.get_running_loop().call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        self._ticking = None
        asyncio.ensure_future(self._tidy())  # noqa: RUF006 - it lives for a moment, and tells its own failure

    async def _tidy(self) -> None:
        if await self.questions.run(later("tidying"), self.jobs.following.tick, 60.0):
            self.follow_up()

    async def stop_extension(self) -> None:
        """The server ends: agents that are there for us leave their processes."""
        if self._ticking is not None:
            self._ticking.cancel()
        if len(self.jobs.following):
            await Threads(1).run(later("letting go of jobs"), self.jobs.following.close, 8.0)
