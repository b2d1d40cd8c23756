"""Write the list of tables in docs/sql.md from jupyter_traindbg/tables/. --check only says whether it is stale."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
PAGE = REPO / "docs" / "sql.md"
sys.path.insert(0, str(REPO))

from jupyter_traindbg.language import speaking  # noqa: E402 - of this checkout, installed or not
from jupyter_traindbg.model import SqlTable  # noqa: E402
from jupyter_traindbg.questions import sql  # noqa: E402

LIST = re.compile(r"(?<=<!-- tables -->\n).*(?=<!-- end of tables -->)", re.DOTALL)


def page() -> str:
    """The whole page as it should be."""
    with speaking("en"):
        listed = "\n".join(line for table in sql.listed().tables for line in _table(table))
    return LIST.sub(lambda _: f"\n{listed}\n", PAGE.read_text(encoding="utf-8"))


def _table(table: SqlTable) -> Iterator[str]:
    yield f"### {table.table}\n"
    yield f"{table.row}. Costs: {table.cost}.\n"
    yield "| column | type | meaning |\n|---|---|---|"
    yield from (f"| `{c.name}` | {c.type} | {c.meaning} |" for c in table.columns)
    yield ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit status 1 where the page is stale")
    check: bool = parser.parse_args().check
    text = page()
    stale = PAGE.read_text(encoding="utf-8") != text
    if stale and check:
        print("docs/sql.md is stale: run scripts/sql_page.py", file=sys.stderr)
    elif stale:
        PAGE.write_text(text, encoding="utf-8")
    return int(stale and check)


if __name__ == "__main__":
    sys.exit(main())
