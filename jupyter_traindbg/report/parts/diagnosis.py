"""What is wrong, by `Job.diagnose`; of a launcher whose ranks are gone, what became of them. 2 to 4 s."""

from __future__ import annotations

from ...outside import procfs
from ...questions.diagnose import judged
from ..context import Context, Part, Unavailable

TITLE = "Diagnosis"
ORDER = 10
FROM_JOB = True
AFTER = "stacks"


def collect(context: Context) -> Part:
    subject = context.subject
    if "diagnose" in subject.questions:
        result = context.ask("diagnose", context.timeout * 1.5)
    elif subject.launcher_pid and procfs.exists(subject.launcher_pid):
        result = judged(subject.name, [], context.left_s(), subject.launcher_pid)
    else:
        raise Unavailable(subject.problem or "there is no job to diagnose")
    count = len(result.findings)
    said = f"{count} finding{'s' * (count != 1)}" if count else "nothing wrong was found"
    return Part(
        f"the job is {getattr(result, 'state', 'not known')}; {said}",
        results=[result],
        findings=result.findings,
        issue=[f"State: {getattr(result, 'state', 'not known')}"],
    )
