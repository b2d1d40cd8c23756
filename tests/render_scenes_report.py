"""Reports as they are written, made by hand."""

from __future__ import annotations

from jupyter_traindbg.model import Finding, Report, ReportFile, ReportPart, ReportSecret, Subject


def report(parts: int, *, missing: int = 2) -> Report:
    """A bundle of `parts` parts, of which the last `missing` could not be had; a secret for each part."""
    there = [ReportPart(f"part{n}", f"Part {n}", f"{n} files with errors", taken_s=0.2) for n in range(parts - missing)]
    gone = [
        ReportPart(f"gone{n}", f"Gone {n}", "", ("there is no process 4711",), empty=True, taken_s=0.1)
        for n in range(missing)
    ]
    secrets = [
        ReportSecret("api-key", n + 1, tuple(f"logs/rank{i}.txt" for i in range(n + 1)), n + 3) for n in range(parts)
    ]
    finding = Finding(
        "nan_loss", "critical", "The loss is nan", who=[Subject("rank", 3)], evidence=["train.log:17 loss nan"]
    )
    return Report(
        "/home/me/bundle.zip",
        123_456,
        "torchrun:4711",
        tuple(ReportFile(f"logs/rank{n}.txt", 1000 * n, "Logs") for n in range(parts)),
        (*there, *gone),
        tuple(secrets),
        (finding,),
        3.2,
    )
