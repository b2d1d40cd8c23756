"""The verb of a question to a job: it takes a target, and those of the question's keywords that its ``OPTIONS`` have a help for."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Mapping, Sequence

from .. import questions
from ..model import Result
from .base import Session, add_target

__all__ = ["OfQuestion"]


class OfQuestion:
    """See `jupyter_traindbg.magics.base.Verb`."""

    def __init__(self, name: str) -> None:
        question = questions.load(name)
        told = vars(question)
        self.__doc__ = question.__doc__
        self.EXAMPLES: Sequence[tuple[str, str]] = told["EXAMPLES"]
        self._name = name
        self._helps: Mapping[str, str] = told.get("OPTIONS", {})
        self._keywords = inspect.signature(question.ask).parameters

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """A keyword that is off by default is the option ``--KEYWORD``, one that is on is ``--no-KEYWORD``."""
        add_target(parser)
        for keyword, words in self._helps.items():
            on = bool(self._keywords[keyword].default)
            option = f"--{'no-' * on}{keyword.replace('_', '-')}"
            parser.add_argument(option, dest=keyword, action="store_false" if on else "store_true", help=words)

    def run(self, args: argparse.Namespace, session: Session) -> Result:
        """Ask it."""
        keywords = {keyword: getattr(args, keyword) for keyword in self._helps}
        with session.job(args.target, args.timeout) as job:
            answer: Result = getattr(job, self._name)(**keywords, timeout=args.timeout)
            return answer
