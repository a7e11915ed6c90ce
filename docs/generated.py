"""A part of a page that is generated from the code: rewrite it, or check whether it is up to date.

The part lies between two comments in the page; everything around them is written by hand.
"""

from collections.abc import Callable
from pathlib import Path


class Generated:
    """The part of `page` between `begin` and `end` that `write` makes."""

    def __init__(self, page: Path, begin: str, end: str, write: Callable[[], str]) -> None:
        self.page = page
        self.begin = begin
        self.end = end
        self.write = write

    def brought_up_to_date(self, text: str) -> str:
        """Return `text` with the part replaced by what the code says now."""
        before, _, rest = text.partition(self.begin)
        _, _, after = rest.partition(self.end)
        return f"{before}{self.begin}\n{self.write()}\n{self.end}{after}"

    def main(self, arguments: list[str], command: str) -> int:
        """Rewrite the page and return 0; with `--check`, only return 1 if it is not up to date."""
        text = self.page.read_text(encoding="utf-8")
        current = self.brought_up_to_date(text)
        if arguments == ["--check"]:
            print("up to date" if text == current else f"stale: run {command}")
            return int(text != current)
        self.page.write_text(current, encoding="utf-8")
        return 0
