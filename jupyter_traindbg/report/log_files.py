"""Which logs a report reads: those that were named, else those that the job writes."""

from __future__ import annotations

import dataclasses

from ..outside import logs
from ..outside.logs import LogFile, of_job
from .context import Context

__all__ = ["LogFile", "find"]


def find(context: Context) -> tuple[list[LogFile], list[str]]:
    """The logs, and why there are not more."""
    if context.logs:
        named = [file for target in context.logs for file in logs.find(target)]
        return of_job.bounded([dataclasses.replace(f, name=f.path, who=f.who or "named by you") for f in named], [])
    subject = context.subject
    files, why_not = of_job.find(subject.pids, subject.launcher_pid, subject.left_logs)
    own = [file for file in files if file.name not in subject.others_logs]
    if subject.elsewhere and not own:
        why_not = [f"{log} is not to be seen from this machine" for log in subject.left_logs]
    elif subject.others_logs and not own:
        why_not = [f"what is written here goes to {subject.others_logs[0]}, which is read once for all hosts"]
    return own, why_not
