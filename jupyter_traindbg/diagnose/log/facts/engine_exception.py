"""What an inference engine raised where its parent says "failed, see above" (``engine_exception``), or else in its code, which may
have been one request that it refused (``engine_code_exception``)."""

from __future__ import annotations

import re

from ....model import LogEvidence
from ..progress import ON_PURPOSE, progress_of
from ..trends import line_at
from . import Fact

__all__ = ["facts"]

_PARENT = re.compile(
    r"Engine (?:core|process) (?:initialization failed|failed to start)|WorkerProc (?:initialization failed|failed to start)"
    r"|EngineCore (?:failed to start|encountered an? \w+)|Failed core proc|Scheduler hit an exception|Received sigquit from a child process"
)
_ENGINE = re.compile(r"(?:^|/)(?:vllm|sglang|tensorrt_llm|lmdeploy)/")


def facts(evidence: LogEvidence) -> list[Fact]:
    """The first one, innermost of its chain, with ``engine_error``, ``engine_message`` and, where it is known, ``engine_place``."""
    let_pass = progress_of(evidence).let_pass
    told = {line.source for line in evidence.lines if _PARENT.search(line.text)}
    for outermost in sorted(evidence.errors, key=lambda e: (e.line.source, e.line.number)):
        if (outermost.line.source, outermost.line.number) in let_pass:
            continue
        error = list(outermost.chain())[-1]
        kind = error.type.rpartition(".")[2]
        known = error.line.source in told
        of_engine = known or any(_ENGINE.search(frame.file) for frame in error.frames)
        if not of_engine or not error.message or kind in ON_PURPOSE or _PARENT.search(error.message):
            continue
        values: dict[str, float | str] = {
            "engine_error": kind,
            "engine_message": error.message.partition("\n")[0][:300],
        }
        if error.frames:
            last = error.frames[-1]
            values["engine_place"] = f"{last.function} ({last.file}:{last.line})"
        line = line_at(evidence, error.line.source, error.last_number) or error.line
        return [Fact("engine_exception" if known else "engine_code_exception", line, values, error.line.rank)]
    return []
