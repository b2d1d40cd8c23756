"""Texts of any length that a careless pattern takes for ever over: for unit tests and for benchmarks/bounds.py."""

from __future__ import annotations

from collections.abc import Iterator

from jupyter_traindbg.diagnose.log.family import Refute, Signal

UNITS = (
    "9",
    "1.2.3.",
    "a ",
    "a_",
    "a.",
    "/a",
    "(",
    "[",
    " ",
    "\t",
    ":",
    "loss ",
    "1 GiB ",
    "Error",
    'File "',
    "> ",
    "x" * 40 + " ",
)
"""What a run of anything is made of."""
FILLERS = ("A", "0", " ", "=(", "rank 1 ", "1.0 GiB ", "'a', ", "\u202e[[{x}]] %s", "0.", "model ", "Error: ")
"""What may stand round a literal of the knowledge."""


def run_of(unit: str, characters: int) -> str:
    """`unit` again and again."""
    return (unit * (characters // len(unit) + 1))[:characters]


def lines(characters: int) -> dict[str, str]:
    """Lines of a log by what the reader makes of them, before it cuts them off."""
    n = characters
    return {
        "(" + "a" * n: "(" + "a" * n,
        "(" + run_of("a ", n): "(" + run_of("a ", n).rstrip(),
        "a" + "1" * n: "a" + "1" * n,
        run_of("a-", n): run_of("a-", n),
        "across" + " " * n: "across",
        "[" * n: "[" * n,
        run_of("> ", n): "",
        run_of("\x1b]", n): "",
        "\x1b[" + run_of("1;", n): "[" + run_of("1;", n),
        '{"log":"' + "[" * n: '{"log":"' + "[" * n,
        "9" * n: "9" * n,
    }


def secrets(characters: int) -> dict[str, str]:
    """Texts that look like secrets again and again, by what is told of them."""
    units = {
        "letters": "a",
        "the word key": "key",
        "passwords": "password: ",
        "cookies": "cookie: ",
        "open quotes": "token='",
        "backslashes": "\\",
        "addresses": "://",
        "beginnings of private keys": "-----BEGIN RSA PRIVATE KEY-----",
        "lines of a private key": "x" * 76 + "\n",
        "blocks below a name": "secret: |\n  a\n",
        "users of addresses": "https://a:",
        "quotes": '"',
    }
    return {name: run_of(unit, characters) for name, unit in units.items()}


def around(signal: Signal | Refute, characters: int) -> Iterator[str]:
    """Text with literals of `signal`: at one end of a line, or within what nearly matches, `characters` long."""
    long, short = [run_of(unit, characters) for unit in FILLERS], characters * 3 // 8
    for filler in long:
        yield f"{signal.anchors[0]} {filler}\n" + "\n".join([filler] * 6)
    for anchor in signal.anchors[1:]:
        yield f"{anchor} {long[1][:short]}"
    for filler in long[:3]:
        for part in (1, 2, 3):
            at = len(signal.example) * part // 4
            yield signal.example[:at] + filler[:short] + signal.example[at:]
