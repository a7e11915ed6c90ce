"""The README as its tests see it: sections, and the blocks of commands and programs in them."""

import re
from typing import NamedTuple

from tests.repo.tree import ROOT

_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
INTERRUPT = "^C"
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A fenced block: the language it says it is in, and its text."""

    language: str
    text: str

    @property
    def commands(self) -> list[tuple[str, list[str]]]:
        """Of a console: each command with the lines that it prints; `^C` is a command that prints nothing."""
        found: list[tuple[str, list[str]]] = []
        for line in self.text.splitlines():
            if line == INTERRUPT:
                found.append((INTERRUPT, []))
            elif line.startswith("$ "):
                found.append((line.removeprefix("$ "), []))
            else:
                found[-1][1].append(line)
        return found


def sections() -> dict[str, list[Block]]:
    """Return the blocks of each section of the README that has any."""
    _, *parts = _SECTION.split((ROOT / "README.md").read_text(encoding="utf-8"))
    found = {
        title: [Block(*block) for block in _BLOCK.findall(text)] for title, text in zip(*[iter(parts)] * 2, strict=True)
    }
    return {title: blocks for title, blocks in found.items() if blocks}


def prints(expected: list[str], printed: str) -> bool:
    """Say whether a command printed what it should: `...` stands for any text, alone on a line for any lines."""
    pattern = "".join(
        "(.*\n)*?" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*") + "\n" for line in expected
    )
    return re.fullmatch(pattern, printed) is not None
