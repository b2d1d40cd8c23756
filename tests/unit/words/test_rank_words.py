"""Many ranks in few words."""

from __future__ import annotations

from cases import each

from jupyter_traindbg.language import speaking
from jupyter_traindbg.words.ranks import compact_ranks, number_runs, ordinal, rank_list, ranks_words


@each(
    ("ranks", "words"),
    [
        ([], "no rank"),
        ([5], "rank 5"),
        ([5, 5], "rank 5"),
        ([1, 0], "ranks 0, 1"),
        ([0, 2], "ranks 0, 2"),
        ([2, 1, 0], "ranks 0-2 (3)"),
        ([0, 1, 2, 3, 5, *range(8, 300)], "ranks 0-3, 5, 8-299 (297)"),
        (range(3, 300, 8), "ranks 3-299, every 8th (38)"),
        (range(0, 8, 2), "ranks 0-6, every 2nd (4)"),
        (range(0, 63, 21), "ranks 0, 21, 42 (3)"),
        (range(0, 84, 21), "ranks 0-63, every 21st (4)"),
        ([0, 1, 4, 5, 9], "ranks 0, 1, 4, 5, 9 (5)"),
        ([n * n for n in range(20)], "ranks 0, 1, 4, 9, 16, 25, 36, 49, 64, 81, 100, 121, 144, ... (20)"),
    ],
)
def test_compact_ranks(ranks: list[int], words: str) -> None:
    assert compact_ranks(ranks) == words


def test_a_rank_list_says_every_rank_unless_it_is_cut() -> None:
    ranks = [0, 1, 2, 7, 9, 10, 11, 12, 40]
    told = {n for piece in rank_list(ranks).split(", ") for n in _numbers(piece)}
    assert told == set(ranks)


def _numbers(piece: str) -> range:
    first, _, last = piece.partition("-")
    return range(int(first), int(last or first) + 1)


@each(
    ("ranks", "english", "chinese"),
    [
        ([], "no rank", "没有 rank"),
        ([3], "rank 3", "rank 3"),
        ([3, 1, 0], "ranks 0, 1, 3", "rank 0, 1, 3"),
        ([2, 0, 1], "ranks 0-2", "rank 0-2"),
        (range(300), "ranks 0-299 (300)", "rank 0-299 (300)"),
        (range(0, 300, 7), "ranks 0-294, every 7th (43)", "rank 0-294（每 7 个取一个） (43)"),
    ],
)
def test_ranks_in_a_sentence(ranks: list[int], english: str, chinese: str) -> None:
    assert ranks_words(ranks) == english
    with speaking("zh"):
        assert ranks_words(ranks) == chinese


def test_runs_of_any_numbers_are_cut_where_they_are_told_to_be() -> None:
    assert number_runs([9, 4, 1, 2, 3, 4, 7, 8], most=2) == "1-4, 7-9"
    assert number_runs([1, 3, 5], most=2) == "1, 3, ..."


def test_ordinals() -> None:
    assert [ordinal(n) for n in (1, 2, 3, 4, 11, 12, 13, 21, 112)] == [
        "1st",
        "2nd",
        "3rd",
        "4th",
        "11th",
        "12th",
        "13th",
        "21st",
        "112th",
    ]
