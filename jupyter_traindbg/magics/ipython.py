"""Verbs as IPython line magics: same parser, same result object, one-line errors, completion of options and targets."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.magic_arguments import MagicArgumentParser

from ..errors import NoTarget, TraindbgError
from ..job import Job, attach
from ..model import Result
from . import base, hearing

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


class NotebookSession:
    """The one job that this shell is attached to. A verb with a target of its own leaves it alone."""

    def __init__(self) -> None:
        self.current: Job | None = None
        self._beside: dict[str, Job] = {}
        """Jobs that are watched and are not the current one, by target."""

    @contextlib.contextmanager
    def job(self, target: str | None, timeout: float) -> Iterator[Job]:
        if target is None:
            if self.current is None:
                self._stay_with(attach(timeout=timeout))
            assert self.current is not None
            yield self.current
        elif self.current is not None and target == self.current.name:
            yield self.current
        else:
            with attach(target, timeout=timeout) as job:
                yield job
        hearing.listen()

    def stay(self, target: str | None, timeout: float) -> Job:
        """The job to watch, which stays attached as long as this notebook is: the current one, or one beside it."""
        if target is None or (self.current is not None and target == self.current.name):
            with self.job(target if self.current is not None else None, timeout) as job:
                return job
        beside = self._beside.get(target)
        if beside is not None and beside.over:
            beside.close()  # another job may have that name now; what was drawn of the old one stays
            beside = None
        if beside is None:
            beside = self._beside[target] = attach(target, timeout=timeout)
            hearing.listen()
        return beside

    def attach(self, target: str | None, timeout: float) -> Result:
        job = attach(target, timeout=timeout)
        self.close()
        self._stay_with(job)
        hearing.listen()
        return job.attached()

    def _stay_with(self, job: Job) -> None:
        """Its steps are kept from now on, so that they can be shown when it has died; this very process would take them with it. Where not
        all ranks could be entered, a feed would try again and again: that is for who watches.
        """
        self.current = job
        if job.name != "self" and all(rank.agent for rank in job.ranks):
            job.keep_steps()

    def detach(self, target: str | None, timeout: float, *, force: bool = False) -> Result:
        if target is not None and (self.current is None or target != self.current.name):
            with attach(target, timeout=timeout) as job:
                return job.detached(force=force, timeout=timeout)
        if self.current is None:
            raise NoTarget("this notebook is attached to nothing", "name the target to detach")
        detached = self.current.detached(force=force, timeout=timeout)
        self.current = None
        return detached

    @contextlib.contextmanager
    def live(self) -> Iterator[Callable[[Result, str], None]]:
        from IPython.display import display

        nothing = {"text/plain": ""}
        place = display(nothing, raw=True, display_id=True)

        def show(result: Result, line: str) -> None:
            place.update(result)

        try:
            yield show
        finally:
            place.update(nothing, raw=True)  # the last one is what the magic returns

    def close(self, *, everything: bool = False) -> None:
        """Leave the current job, if any; with `everything` also those that are watched beside it."""
        job, self.current = self.current, None
        beside = list(self._beside.values()) if everything else []
        if everything:
            self._beside.clear()
            hearing.stop()
        for left in ([job] if job is not None else []) + beside:
            left.close()


def load(shell: InteractiveShell) -> NotebookSession:
    """Register every verb as a magic. Returns the session to give to `unload`."""
    session = NotebookSession()
    shell.events.register("pre_run_cell", hearing.begin)
    for name in base.names():
        shell.register_magic_function(_magic(name, session), "line", name)
        shell.set_hook("complete_command", _completer(name), str_key=f"%{name}")
    return session


def unload(shell: InteractiveShell, session: NotebookSession) -> None:
    """Take the magics out again and leave the jobs."""
    session.close(everything=True)
    shell.events.unregister("pre_run_cell", hearing.begin)
    for name in base.names():
        shell.magics_manager.magics["line"].pop(name, None)
        shell.strdispatchers["complete_command"].strs.pop(f"%{name}", None)


def _parser(name: str) -> MagicArgumentParser:
    return base.complete_parser(MagicArgumentParser(prog=f"%{name}", add_help=False), name)


def _magic(name: str, session: NotebookSession) -> Callable[[str], Result]:
    parser = _parser(name)

    def magic(line: str) -> Result:
        try:
            return base.run(name, parser.parse_argstring(line), session)
        except TraindbgError as e:
            raise UsageError(str(e)) from None

    magic.__name__ = name
    magic.__doc__ = parser.format_help()
    return magic


def _completer(name: str) -> Callable[[Any, Any], list[str]]:
    options = [o for action in _parser(name)._actions for o in action.option_strings]
    takes_target = any(action.dest == "target" for action in _parser(name)._actions)

    def complete(shell: Any, event: Any) -> list[str]:
        if event.symbol.startswith("-") or not takes_target:
            return options
        from ..attach.discover import targets

        return [t.name for t in targets()] + ["self"]

    return complete
