"""The pages whose commands and programs are run by tests: their sections, and the blocks in them."""

import re
from typing import NamedTuple

from tests.repo.tree import ROOT

PAGES = ("README.md", "docs/CLI.md", "docs/CLIENTS.md", "docs/SPARK.md", "docs/OPERATIONS.md")
INTERRUPT = "^C"

_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A fenced block: its language and its text."""

    language: str
    text: str

    @property
    def commands(self) -> list[tuple[str, list[str]]]:
        """The commands of a console block, each with the lines that it prints; `^C` counts as one that prints none."""
        found: list[tuple[str, list[str]]] = []
        for line in self.text.splitlines():
            if line == INTERRUPT:
                found.append((INTERRUPT, []))
            elif line.startswith("$ "):
                found.append((line.removeprefix("$ "), []))
            else:
                found[-1][1].append(line)
        return found

    @property
    def file_name(self) -> str:
        """The name of a file of settings, which its first line has in a comment."""
        return self.text.partition("\n")[0].removeprefix("# ")


def text_of(page: str) -> str:
    """Return the text of a page, named by its path in the repository."""
    return (ROOT / page).read_text(encoding="utf-8")


def sections(page: str) -> dict[str, list[Block]]:
    """Return the blocks of each section of a page; the part before the first section has the title ''."""
    titles_and_texts = ["", *_SECTION.split(text_of(page))]
    pairs = zip(titles_and_texts[::2], titles_and_texts[1::2], strict=True)
    found = {title: [Block(*block) for block in _BLOCK.findall(text)] for title, text in pairs}
    return {title: blocks for title, blocks in found.items() if blocks}


def blocks(page: str) -> list[Block]:
    """Return all blocks of a page in their order."""
    return [block for of_section in sections(page).values() for block in of_section]


def prints(expected: list[str], printed: str) -> bool:
    """Return whether a command printed what a page shows: `...` is any text, and alone on a line any lines."""
    pattern = "".join(
        "(.*\n)*?" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*") + "\n" for line in expected
    )
    return re.fullmatch(pattern, printed) is not None


def anchors(page: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", _BLOCK.sub("", text_of(page)), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
