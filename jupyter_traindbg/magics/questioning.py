"""The verb of a question to a job: it takes a target, and those of the question's keywords that have a help in its ``OPTIONS``."""

from __future__ import annotations

import argparse
import inspect

from .. import questions
from ..model import Result
from .base import Session, add_target
from .parser import whole_number

__all__ = ["OfQuestion"]


class OfQuestion:
    """See `jupyter_traindbg.magics.base.Verb`."""

    def __init__(self, name: str) -> None:
        question = questions.load(name)
        self.__doc__ = question.__doc__
        self.EXAMPLES = question.EXAMPLES
        self._name = name
        self._helps = getattr(question, "OPTIONS", {})
        self._keywords = inspect.signature(question.ask).parameters

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """A keyword that is off by default is ``--KEYWORD``, one that is on is ``--no-KEYWORD``; a number is given."""
        add_target(parser)
        for keyword, words in self._helps.items():
            default = self._keywords[keyword].default
            option = keyword.replace("_", "-")
            if isinstance(default, bool):
                action = "store_false" if default else "store_true"
                parser.add_argument(f"--{'no-' * default}{option}", dest=keyword, action=action, help=words)
            else:
                parser.add_argument(f"--{option}", type=whole_number, metavar="N", default=default, help=words)

    def run(self, args: argparse.Namespace, session: Session) -> Result:
        """Ask it."""
        keywords = {keyword: getattr(args, keyword) for keyword in self._helps}
        with session.job(args.target, args.timeout) as job:
            answer: Result = getattr(job, self._name)(**keywords, timeout=args.timeout)
            return answer
