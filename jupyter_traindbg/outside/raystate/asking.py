"""Questions to a dashboard, several at the same time, with one deadline for all of them; and notes on what did not come."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...errors import CannotAttach, DeadlineExceeded, TraindbgError
from ...language import text
from ...tasks import each
from .dashboard import Answer, Dashboard, Refused

__all__ = ["Questions", "Unanswered"]

AT_ONCE = 8
"""Ray's head works on at most 100 requests at a time, for everybody together."""
LIMIT = 10_000
"""What Ray lists at most."""
Question = Callable[[], Any]


class Unanswered:
    """A question without an answer, and why; falsy. `error` is what to raise where nothing can be shown without it."""

    def __init__(self, error: TraindbgError | None, why: str = "") -> None:
        self.why = error.cause if error is not None else why
        self.error = error or CannotAttach(
            text("the dashboard answers {why}", why=why),
            text("is it the dashboard of a Ray cluster, and is that healthy?"),
        )

    def __bool__(self) -> bool:
        return False


class Questions:
    """What to ask a `dashboard` until a moment of `time.monotonic`. ``notes`` collects what the answers lack."""

    def __init__(self, dashboard: Dashboard, until: float) -> None:
        self.dashboard = dashboard
        self.until = until
        self.notes: list[str] = []

    def get(self, path: str, /, **query: str | list[str]) -> Any:
        return self.dashboard.get(path, self.until, **query)

    def node(self, node_id: str) -> Question:
        """All that one node's agent has reported, past the head's cache of it."""
        return lambda: self.get(f"/nodes/{node_id}", nocache="1")["data"]["detail"]

    def listing(self, what: str, conditions: Sequence[tuple[str, str, str]] = (), limit: int = LIMIT) -> Question:
        """Rows of the state API where all `conditions`, ``(column, "=" or "!=", value)``, hold."""

        def ask() -> list[Answer]:
            columns = [list(column) for column in zip(*conditions, strict=True)] or [[], [], []]
            filters = dict(zip(("filter_keys", "filter_predicates", "filter_values"), columns, strict=True))
            left_s = str(max(1, int(self.until - time.monotonic())))
            answer = self.get(f"/api/v0/{what}", detail="1", limit=str(limit), timeout=left_s, **filters)
            listing = answer["data"]["result"]
            self._note_what_is_missing(what, listing, limit)
            return list(listing["result"])

        return ask

    def _note_what_is_missing(self, what: str, listing: Answer, limit: int) -> None:
        shown, matched = len(listing["result"]), listing.get("num_filtered") or 0
        total, kept = listing.get("total") or 0, listing.get("num_after_truncation") or 0
        if matched > shown or kept >= LIMIT:
            of = f"{shown} of {matched}" if matched > shown else f"only {shown}"
            self.notes.append(
                f"{of} {what} were read, of which Ray lists {min(limit, LIMIT)} at most: name one job to see all of it"
            )
        elif what == "tasks" and total > kept:
            self.notes.append(f"{total - kept} tasks are no longer in Ray's list: it keeps the last ones only")
        for warning in (listing.get("partial_failure_warning"), *(listing.get("warnings") or ())):
            if warning:
                self.notes.append(f"{what}: {str(warning)[:300]}")

    def together(self, questions: Mapping[str, Question]) -> dict[str, Any]:
        """The answer to each question, or an `Unanswered`. A name server that never answers holds up nobody."""
        left = max(0.0, self.until - time.monotonic())
        answers = each(list(questions), lambda name: _answer(questions[name]), left, at_once=AT_ONCE, grace_s=0.0)
        late = DeadlineExceeded(
            text("the dashboard at {url} has not answered in time", url=self.dashboard.url),
            text("give a longer --timeout; its head may be overloaded"),
        )
        return {name: Unanswered(late) if isinstance(answer, TraindbgError) else answer for name, answer in answers}

    def had(self, answers: Mapping[str, Any], what: str, otherwise: Any) -> Any:
        """The answer to `what`, or `otherwise` and a note."""
        answer = answers.get(what, otherwise)
        if isinstance(answer, Unanswered):
            self.notes.append(f"no {what}: {answer.why}")
            return otherwise
        return answer


def _answer(ask: Question) -> Any:
    try:
        return ask()
    except TraindbgError as e:
        return Unanswered(e)
    except Refused as e:
        return Unanswered(None, str(e))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as e:
        return Unanswered(None, text("an answer of unknown form ({kind}: {why})", kind=type(e).__name__, why=e))
