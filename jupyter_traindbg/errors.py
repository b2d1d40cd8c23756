"""Everything that jupyter_traindbg raises on purpose.

    TraindbgError
    ├── UsageError              the caller's words are off (CLI exit status 2)
    │   ├── UnknownTarget       a target's text has no known form
    │   └── BadQuery            SQL that is wrong, does more than read, or needs too much
    ├── NoTarget                nothing to attach to
    ├── AmbiguousTarget         several candidates; the message lists them
    ├── TargetGone              the process has ended
    ├── CannotAttach            it runs, but there is no way in
    │   ├── NotPermitted        the kernel, a container or a uid forbids it
    │   ├── NoSafeThread        no thread is parked where injecting is harmless
    │   ├── MissingPiece        something of ours is not installed
    │   └── RayVersion          the cluster runs another version of Ray or Python than we do
    ├── GilHeld                 the agent is inside but C code holds the GIL
    ├── DeadlineExceeded        no answer in time
    ├── AgentRefused            the agent said no (token, uid, version)
    ├── ActionRefused           an action was not done, and nothing was changed
    │   └── StepOver            ... since the step that was agreed on was over
    ├── ProbeFailed             the agent answered with an error
    ├── BadDump                 a file or directory that is no flight-recorder dump, is damaged, or would run code
    ├── BadConfig               a configuration that cannot be read; says which line of it
    ├── BadCheckpoint           a file or directory that is no checkpoint, is damaged, or of an unknown form
    ├── BadLog                  a log that is not there, may not be read, or is no text
    └── UnsafeCheckpoint        a checkpoint whose pickle would run code if it were loaded

Every class carries ``next_step``: what the person can do now. ``str(error)`` is one line, cause first. Both are said by `language.text`
where the error is raised, in the language of whoever asked; what a class says where nothing else was given is kept by `language.later`.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from . import commands
from .language import language, later, speaking, text

__all__ = [
    "ActionRefused",
    "AgentRefused",
    "AmbiguousTarget",
    "BadCheckpoint",
    "BadConfig",
    "BadDump",
    "BadLog",
    "BadQuery",
    "CannotAttach",
    "DeadlineExceeded",
    "GilHeld",
    "MissingPiece",
    "NoSafeThread",
    "NoTarget",
    "NotPermitted",
    "ProbeFailed",
    "RayVersion",
    "StepOver",
    "TargetGone",
    "TraindbgError",
    "UnknownTarget",
    "UnsafeCheckpoint",
    "UsageError",
]

FORMS = later(
    "a pid, kernel:NOTEBOOK_OR_ID_OR_FILE, torchrun:PID, ray:auto, ray:JOB@ADDRESS, ssh:HOST,HOST:TARGET, slurm:JOB, the path of an "
    "agent's socket, or self"
)
"""What names a target (`model.target` has the grammar): for help, and for errors."""
MOST_CHOICES = 4
"""Candidates that are named in one line."""
SHORT = 48
"""Characters of what a candidate runs that have room in such a line: its beginning and its end."""


class TraindbgError(Exception):
    """Base of all errors here: what happened (``cause``) and what to do (``next_step``)."""

    default_next_step = later("`%targets` shows what can be attached to")
    asked_about: str | None = None
    """The target that the commands in the text have to name; None where they mean the right job by themselves."""

    def __init__(self, cause: str, next_step: str | None = None) -> None:
        self.cause = cause
        self.by_default = next_step is None
        """Whether the next step is the one that all errors of this class have."""
        self.next_step = self.default() if next_step is None else next_step
        self.language = language()
        """The one that both are in, wherever they are read: in another thread, or in another process."""
        super().__init__(cause)

    @classmethod
    def default(cls) -> str:
        """The next step where no other is given, in the reader's language."""
        return text(cls.default_next_step)

    def parts(self) -> tuple[str, str]:
        """The cause and the next step as they are to be read here: commands as they are typed here, nothing unprintable."""
        with commands.about(self.asked_about):
            return _printable(commands.spelled(self.cause)), _printable(commands.spelled(self.next_step))

    def __str__(self) -> str:
        with speaking(self.language):
            return text("; ").join(part for part in self.parts() if part)


def _cut(words: str) -> str:
    return words if len(words) <= SHORT else f"{words[: SHORT // 4]}…{words[-SHORT * 3 // 4 :]}"


def _printable(words: str) -> str:
    """A file's name may hold anything."""
    return words if words.isprintable() else "".join(map(_shown, words))


def _shown(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()


class UsageError(TraindbgError):
    """The arguments are off; nothing was done."""

    default_next_step = later("`traindbg --help` shows what there is")


class UnknownTarget(UsageError):
    """The text names no target."""

    default_next_step = later("`%targets` shows what there is; a target is {forms}")

    @classmethod
    def default(cls) -> str:
        return text(cls.default_next_step, forms=text(FORMS))


class BadQuery(UsageError):
    """A query in SQL that is wrong, does more than read, or needs more than a query may have."""


class NoTarget(TraindbgError):
    """There is no training process to attach to."""

    default_next_step = later("start the job, or name a pid; `traindbg targets` lists what is seen")


class AmbiguousTarget(TraindbgError):
    """More than one candidate, and none was named. Where the `candidates` are given, the next step is the same command for each of them."""

    default_next_step = later("name one of them")
    asked: tuple[str, str] | None = None
    """The verb and the words that were typed after it; None where no command was."""

    def __init__(
        self,
        cause: str,
        next_step: str | None = None,
        *,
        candidates: Mapping[str, str] | None = None,
        instead_of: str | None = None,
    ) -> None:
        """`candidates` are targets with what each of them runs; `instead_of` is the word that meant several of them."""
        super().__init__(cause, next_step)
        self.candidates, self.instead_of = dict(candidates or {}), instead_of

    def choices(self) -> list[str]:
        """What to type, one for each candidate: complete commands where a command was typed, else targets."""
        if self.asked is None:
            return [_printable(candidate) for candidate in self.candidates]
        verb, words = self.asked
        return [_printable(commands.command(f"%{verb} {self._named(words, one)}".strip())) for one in self.candidates]

    def _named(self, words: str, candidate: str) -> str:
        named = shlex.quote(candidate)
        return words.replace(self.instead_of, named, 1) if self.instead_of else f"{named} {words}"

    def parts(self) -> tuple[str, str]:
        cause, step = super().parts()
        choices = self.choices()
        if not choices:
            return cause, step
        runs = [f" ({_printable(_cut(words))})" if words else "" for words in self.candidates.values()]
        shown = [f"`{one}`{words}" if self.asked else one + words for one, words in zip(choices, runs, strict=True)]
        more = len(choices) - MOST_CHOICES
        with speaking(self.language):
            named = text(", ").join(shown[:MOST_CHOICES])
            if more > 0:
                return cause, text("{step}: {choices}, and {more} more", step=step, choices=named, more=more)
            return cause, text("{step}: {choices}", step=step, choices=named)


class TargetGone(TraindbgError):
    """The process ended, before or during the request."""

    @classmethod
    def job_closed(cls, name: str) -> TargetGone:
        """Of a job that has been closed here."""
        return cls(text("this job ({name}) is closed", name=name), text("attach to it again"))

    @classmethod
    def line_closed(cls, pid: int) -> TargetGone:
        """Of a line to a process that has been closed here, by another thread maybe."""
        return cls(text("the line to process {pid} has been closed", pid=pid), text("attach to it again"))


class CannotAttach(TraindbgError):
    """The process runs but there is no way in."""

    default_next_step = later("start it prepared: `TRAINDBG=1 python train.py`, or call `traindbg.serve()` in it")


class NotPermitted(CannotAttach):
    """ptrace (or the agent's socket) is closed to this user."""


class NoSafeThread(CannotAttach):
    """No thread was parked in a system call where a call into the loader is harmless."""

    default_next_step = later("try again in a moment; `%stacks` works from outside meanwhile")


class MissingPiece(CannotAttach):
    """A part of this package, or a tool it needs, is not installed."""


class RayVersion(CannotAttach):
    """The Ray cluster runs another version of Ray or Python than this process, so nothing of ours can run on its nodes."""

    default_next_step = later("use the cluster's versions; `traindbg ray-workers --tier 0` works with any")


class GilHeld(TraindbgError):
    """C code holds the GIL, so no Python can run inside; evidence from outside still works."""

    default_next_step = later(
        "`traindbg stacks` shows from outside who holds it; the agent answers once it is released"
    )


class DeadlineExceeded(TraindbgError):
    """The answer did not come in time."""

    default_next_step = later("give a longer --timeout, or look from outside with `traindbg stacks`")


class AgentRefused(TraindbgError):
    """The agent is there and refused the caller."""


class ActionRefused(TraindbgError):
    """What was asked for does not make sense, or cannot be done on all ranks together; nothing was changed."""

    default_next_step = later(
        "nothing was changed; `traindbg lr TARGET` and `traindbg steps TARGET` show how things are"
    )


class StepOver(ActionRefused):
    """A rank was past the step that was agreed on before all had agreed."""


class ProbeFailed(TraindbgError):
    """A probe raised inside the training process; the process itself goes on."""

    default_next_step = later("the training is not affected; please report this text")


class BadDump(TraindbgError):
    """What was to be read is no dump of torch's flight recorder, is damaged, or its pickle names what would run code."""

    default_next_step = later(
        "dumps are the files that TORCH_FR_DUMP_TEMP_FILE names (TORCH_NCCL_DEBUG_INFO_TEMP_FILE in older torch), one each"
    )


class BadConfig(TraindbgError):
    """A configuration file that cannot be read, or is not of the form that its name says; the cause names the file and the line."""

    default_next_step = later(
        "mend it there; YAML, JSON, TOML, shell scripts and command lines are read, nothing is executed"
    )


class BadCheckpoint(TraindbgError):
    """What was to be read is no checkpoint, is cut off or damaged, or has a form that we do not read."""

    default_next_step = later(
        "use another checkpoint; `traindbg checkpoint --inspect PATH` shows what can be read of one"
    )


class BadLog(TraindbgError):
    """What was to be diagnosed as a log is not there, is empty, may not be read, or is no text."""

    default_next_step = later(
        "give a log, `-` for standard input, a directory of logs, or a pattern such as 'logs/rank*.log'"
    )


class UnsafeCheckpoint(TraindbgError):
    """The pickle in a checkpoint names what has no place in one. It was refused; nothing of it was executed."""

    default_next_step = later("do not load this file with `weights_only=False`; find out where it came from")
