"""One zip with what a maintainer would ask for: of a job that runs, hangs or is dead, of logs alone, or of this machine. Without secrets.

    subject -> `running` (all parts at once, each with its deadline) -> `redact` -> `page`, `issue`, `bundle` -> `Report`

A part that cannot be had is told in the index with its reason. Adding one is one new file in `parts`. Of a job on other machines those
that read a machine run there (`of_machine`), on each, and the part `hosts` puts together what they found.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Sequence

from ..agent import rendezvous
from ..errors import TraindbgError
from ..model import Finding, Report, ReportFile, ReportPart, ReportSecret
from ..outside import logs as log_reader
from ..outside import procfs
from ..progress import PartsBar
from ..redact import Redactor
from ..tasks import each
from . import bundle, issue
from .context import Context, Hosts, OnHost, Part, Subject
from .running import Collected, Collector, collect, collectors, machine_readers

__all__ = ["Collected", "Hosts", "OnHost", "Subject", "default_name", "of_machine", "write"]

PARTS_S, TOKENS_S = 3.0, 1.0
"""The parts together take so many times the `timeout` at most: some wait for others."""
ONE_S = 0.8
"""Of the time that another machine has, so much is for each part there: its answer has to travel."""
_VERDICT = ("diagnosis", "log_findings", "gpu")
"""The parts whose findings are the report's; what others find is among these, or of interest only beside them."""


def write(
    path: str | os.PathLike[str],
    subject: Subject,
    *,
    logs: Sequence[str] = (),
    configs: Sequence[str] = (),
    force: bool = False,
    timeout: float = 10.0,
) -> Report:
    """Collect everything about `subject`, redact it, and write it to the zip at `path`, which must not exist unless `force`.

    `logs` (files, directories, patterns) and `configs` (files) are added; without `logs`, those that the job writes are found. One
    question waits `timeout` seconds at most, all of them three times as long; usually it takes 3 to 6 s for a job, 1 s for a log. Raises
    `UsageError` for a path that cannot be written, `BadLog` for a log that is not there, before anything is collected.
    """
    began = time.monotonic()
    target = bundle.checked(os.fspath(path), force=force)
    for log in logs:
        log_reader.find(log)
    context = _context(subject, logs, configs, timeout)
    chosen = {name: part for name, part in collectors().items() if _is_for(name, part, context)}
    with PartsBar("report", len(chosen) + 1) as progress:
        collected = collect(context, chosen, progress)
        redactor = _informed(subject, collected, context)
        made = _made(subject, collected, redactor)
        size = bundle.write(target, made.texts, force=force)
        progress("zip")
    return dataclasses.replace(made.report, path=target, size_bytes=size, taken_s=time.monotonic() - began)


def default_name() -> str:
    """``traindbg-report-20260102-101112.zip``"""
    return time.strftime("traindbg-report-%Y%m%d-%H%M%S.zip")


def of_machine(subject: Subject, *, machines: int, timeout: float) -> OnHost:
    """What there is to tell of this machine and the ranks of `subject` on it, `timeout` seconds later at most, with every secret in it.

    For a report that is written elsewhere and has so many `machines` in it. Needs nothing but what a helper on another host has.
    """
    began = time.monotonic()
    context = _context(subject, (), (), timeout * ONE_S)
    tokens = _tokens([*subject.pids.values()])
    parts = collect(dataclasses.replace(context, ends=began + timeout, machines=machines), machine_readers())
    return OnHost(os.uname().nodename, list(subject.pids), parts, tokens=tokens)


def _is_for(name: str, part: Collector, context: Context) -> bool:
    """Whether anybody would miss it: a part may ask what only jobs of one kind can be asked (`ASKS`)."""
    subject = context.subject
    if not part.FROM_JOB:
        return not subject.elsewhere or _is_of_hosts(name, context)
    return _named_job(subject) and getattr(part, "ASKS", "") in ("", *subject.questions)


def _is_of_hosts(name: str, context: Context) -> bool:
    """Whether a part that reads a machine has something to say here of a job that runs elsewhere: where it asks all hosts, or was given
    files. Anything else would be of a machine where no rank is."""
    logs = context.logs or context.subject.left_logs
    given = {"environment": True, "gpu": True, "configs": context.configs, "logs": logs, "log_findings": logs}
    return bool(given.get(name))


def _named_job(subject: Subject) -> bool:
    """Whether this is about a job at all, dead or alive: of logs alone nobody misses the stacks."""
    return bool(subject.questions or subject.launcher_pid or subject.pids or subject.problem)


def _context(subject: Subject, logs: Sequence[str], configs: Sequence[str], timeout: float) -> Context:
    pids = [*subject.pids.values(), *([subject.launcher_pid] if subject.launcher_pid else [])]
    stuck = frozenset(procfs.uninterruptible(pids)) if pids else frozenset()
    return Context(subject, tuple(logs), tuple(configs), timeout, time.monotonic() + timeout * PARTS_S, stuck)


def _informed(subject: Subject, collected: Sequence[Collected], context: Context) -> Redactor:
    """A redactor that has seen everything, so that what one part names is found in all of them."""
    redactor = Redactor()
    for token in _tokens([*subject.pids.values(), os.getpid()]):
        redactor.learn(token, "agent-token")
    for one in collected:
        redactor.learn_from([one.problem, one.trace])
        if one.part is not None:
            redactor.learn_from([list(one.part.texts), list(one.part.texts.values())])
            redactor.learn_from(dataclasses.replace(one.part, texts={}))
    redactor.learn_from([subject.name, subject.problem, list(context.logs), list(context.configs)])
    return redactor


def _tokens(pids: Sequence[int]) -> list[str]:
    return [token for _, token in each(pids, _agent_token, TOKENS_S) if token and isinstance(token, str)]


def _agent_token(pid: int) -> str:
    """What lets a client into our agent in `pid`; empty where there is none, or where it is not ours to read."""
    try:
        uid = os.stat(f"/proc/{pid}").st_uid
        card = rendezvous.card(rendezvous.directory(pid, uid, root=f"/proc/{pid}/root"))
    except (OSError, TraindbgError):
        return ""
    return str(card["token"]) if card else ""


@dataclasses.dataclass(frozen=True)
class _Made:
    report: Report
    texts: dict[str, str]


def _made(subject: Subject, collected: Sequence[Collected], redactor: Redactor) -> _Made:
    """Every file of the bundle, redacted, by name; and the report without its path and size."""
    from . import page  # it draws, which a helper on another host cannot

    texts: dict[str, str] = {}
    about: dict[str, str] = {}
    clean: list[Collected] = []
    for one in collected:
        part, names = _redacted(one, redactor, texts)
        about |= {name: f"{one.title}{words}" for name, words in names.items()}
        problem = redactor.text(one.problem, "index.html")
        clean.append(
            dataclasses.replace(one, part=part, problem=problem, trace=redactor.text(one.trace, "report.json"))
        )
    verdict = _verdict(clean)
    report = Report(
        path="",
        size_bytes=0,
        target=redactor.text(subject.name, "index.html"),
        files=(),
        parts=tuple(_told(one) for one in clean),
        verdict=tuple(verdict),
        redacted=tuple(_secrets(redactor)),
    )
    when = time.strftime("%Y-%m-%d %H:%M:%S %z")
    problem = redactor.text(subject.problem, "index.html")
    texts["issue.md"] = issue.text(report, clean, when, problem)
    texts["report.json"] = bundle.as_json(report, clean, when, problem)
    about |= {"issue.md": "to paste into an issue", "report.json": "all of it as data", "index.html": "start here"}
    files = [ReportFile(name, len(text.encode()), about.get(name, "")) for name, text in texts.items()]
    report = dataclasses.replace(report, files=tuple(files))
    texts["index.html"] = page.html(report, clean, when, problem)
    first = ReportFile("index.html", len(texts["index.html"].encode()), about["index.html"])
    report = dataclasses.replace(report, files=(first, *files))
    return _Made(report, {"index.html": texts.pop("index.html"), **texts})


def _redacted(one: Collected, redactor: Redactor, texts: dict[str, str]) -> tuple[Part | None, dict[str, str]]:
    """The part without secrets, and the names of its files, which are added to `texts`, with what is to be known of each."""
    if one.part is None:
        return None, {}
    names = {}
    for name, text in one.part.texts.items():
        safe = bundle.safe_name(redactor.text(name, "names of files"), texts)
        texts[safe] = redactor.text(text, safe)
        about = one.part.about.get(name, "")
        names[safe] = redactor.text(f": {about}", "index.html") if about else ""
    where = f"index.html: {one.title}"
    excerpts = {
        caption: redactor.text("\n".join(lines), where).split("\n") for caption, lines in one.part.excerpts.items()
    }
    part = dataclasses.replace(one.part, texts=dict.fromkeys(names, ""), about={}, excerpts=excerpts, learn=None)
    return redactor.value(part, where), names


def _verdict(collected: Sequence[Collected]) -> list[Finding]:
    """The findings of the parts that judge, each once, in their order."""
    found: dict[tuple[str, str, tuple[str, ...]], Finding] = {}
    for one in collected:
        if one.part is not None and one.name in _VERDICT:
            for finding in one.part.findings:
                found.setdefault((finding.code, finding.title, tuple(finding.who)), finding)
    return list(found.values())


def _told(one: Collected) -> ReportPart:
    if one.part is None:
        return ReportPart(one.name, one.title, "", (one.problem,), empty=True, taken_s=one.taken_s)
    return ReportPart(one.name, one.title, one.part.summary, tuple(one.part.missing), taken_s=one.taken_s)


def _secrets(redactor: Redactor) -> list[ReportSecret]:
    """Each secret with the files it stood in; the number of times is that of all of them."""
    by_number: dict[int, ReportSecret] = {}
    for row in redactor.found:
        known = by_number.get(row.number, ReportSecret(row.kind, row.number, (), 0))
        where = (*known.where, row.where) if row.where not in known.where else known.where
        by_number[row.number] = ReportSecret(row.kind, row.number, where, known.times + row.times)
    return list(by_number.values())
