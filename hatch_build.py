"""The parts of the package's metadata that depend on where the project is published.

Links in README.md are relative, which a package index cannot follow. BARNABAS_PROJECT_URL, the repository's address
(https://HOST/OWNER/NAME), makes them absolute and is named in the project URLs. Without it, links become plain text and
pictures are left out.
"""

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_RELATIVE_PICTURE = re.compile(r"!\[([^\]]+)\]\((?!https?://)([^)]+)\)\n*")
_RELATIVE_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?://|#)([^)]+)\)")
_PAGES = {
    "Documentation": "blob/main/docs/ARCHITECTURE.md",
    "Changelog": "blob/main/docs/CHANGELOG.md",
    "Issues": "issues",
}


class ProjectMetadata(MetadataHookInterface):  # type: ignore[misc]
    """Fills in `readme` and `urls`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the dynamic fields of `metadata`."""
        url = os.environ.get("BARNABAS_PROJECT_URL", "").rstrip("/")
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": for_index(text, url)}
        metadata["urls"] = (
            {"Repository": url, **{name: f"{url}/{page}" for name, page in _PAGES.items()}} if url else {}
        )


def for_index(readme: str, url: str) -> str:
    """Return the README for a package index: relative links and pictures absolute, or removed if `url` is empty."""
    text = _RELATIVE_PICTURE.sub(rf"![\1]({url}/raw/main/\2)\n\n" if url else "", readme)
    return _RELATIVE_LINK.sub(rf"[\1]({url}/blob/main/\2)" if url else r"\1", text)
