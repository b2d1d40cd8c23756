"""Whom a finding blames: text for JSON and for people, and a type for rules."""

from __future__ import annotations

import copy
import json
import pickle

from cases import each

from jupyter_traindbg.model import Diagnosis, Finding, Subject, rank_subjects, things


@each(
    ("subject", "words"),
    [
        (Subject("rank", 3), "rank 3"),
        (Subject("loader_worker", 5012), "worker 5012"),
        (Subject("process", 4711), "pid 4711"),
        (Subject("gpu", "0 MIG 1"), "GPU 0 MIG 1"),
        (Subject("thing", "decoder.bias"), "decoder.bias"),
    ],
)
def test_it_is_its_words_and_knows_what_they_stand_for(subject: Subject, words: str) -> None:
    assert subject == words
    assert json.dumps([subject]) == json.dumps([words])
    for same in (copy.deepcopy(subject), pickle.loads(pickle.dumps(subject))):
        assert (same, same.kind, same.id) == (words, subject.kind, subject.id)


def test_the_ranks_that_a_finding_blames() -> None:
    who = [*rank_subjects([7, 2, 7]), Subject("loader_worker", 3), *things(["rank 9"])]
    found = Finding("nan", "critical", "", who=who)
    assert who == ["rank 2", "rank 7", "worker 3", "rank 9"]
    assert found.ranks == (2, 7), "one that is only called so is none"
    assert Diagnosis("4711", "unsound", (), (), (found,)).to_dict()["findings"][0]["who"] == who
