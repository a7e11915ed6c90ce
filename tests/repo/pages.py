"""Parser of the pages whose commands and programs the tests run: sections and their blocks."""

import re
from typing import NamedTuple

from tests.repo.tree import ROOT

PAGES = (
    "README.md",
    "docs/CLI.md",
    "docs/CLIENTS.md",
    "docs/TESTING.md",
    "docs/SPARK.md",
    "docs/OPERATIONS.md",
    "docs/SECURITY.md",
)
INTERRUPT = "^C"

_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A fenced block."""

    language: str
    text: str

    @property
    def commands(self) -> list[tuple[str, list[str]]]:
        """Return the commands of a console block with their output lines; `^C` is a command without output."""
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
        """Return the name of a file of settings or a Java program, from the comment on its first line."""
        return self.text.partition("\n")[0].lstrip("#/ ")


def text_of(page: str) -> str:
    """Return the text of the page at a path in the repository."""
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
    """Return whether `printed` matches `expected`: `...` matches any text, and alone on a line any lines."""
    pattern = "".join(
        "(.*\n)*?" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*") + "\n" for line in expected
    )
    return re.fullmatch(pattern, printed) is not None


def anchors(page: str) -> set[str]:
    """Return GitHub's anchors of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", _BLOCK.sub("", text_of(page)), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
