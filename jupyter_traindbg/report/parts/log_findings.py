"""What the logs say went wrong, by `traindbg diagnose FILE`: the failure, its root cause, where, with line numbers."""

from __future__ import annotations

import os

from ...questions.jobless import log
from ..context import Context, Part, Unavailable
from ..log_files import find

TITLE = "Findings in the logs"
ORDER = 12
FROM_JOB = False
AFTER = ""
HERE_ONLY = True


def collect(context: Context) -> Part:
    files, why_not = find(context)
    if not files:
        raise Unavailable("; ".join(why_not) or "no log was named, and there is no job that writes one")
    names = [file.name if os.path.exists(file.name) else file.path for file in files]
    result = log.ask(names, timeout=context.left_s())
    count = len(result.findings)
    words = f"{count} finding{'s' * (count != 1)}" if count else "nothing wrong was found"
    stage = f"; last stage: {result.stage}" if result.stage else ""
    return Part(words + stage, results=[result], findings=result.findings, missing=list(result.notes))
