"""A client of the control API of a broker process."""

from __future__ import annotations

import json
import urllib.request
from base64 import b64encode
from typing import Any
from urllib.parse import urlsplit

_LONGEST_S = 60


class ControlClient:
    """The API at a URL that has the token as its password."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._address = f"http://{parts.hostname}:{parts.port}"
        self._credentials = b64encode(f":{parts.password}".encode()).decode()

    def ask(self, method: str, path: str, **body: Any) -> Any:
        """Send a request and return the JSON of the response; `urllib.error.HTTPError` if it is refused."""
        request = urllib.request.Request(
            f"{self._address}{path}",
            json.dumps(body).encode() if body else None,
            {"Authorization": f"Basic {self._credentials}"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=_LONGEST_S) as answer:
            return json.load(answer)

    def post(self, path: str, **body: Any) -> Any:
        return self.ask("POST", path, **body)

    def fault(self, action: dict[str, Any] | None, **condition: Any) -> int:
        """Add a fault rule and return its id."""
        rule_id: int = self.post("/v1/faults", action=action, **condition)["id"]
        return rule_id

    def hits(self, rule_id: int) -> int:
        found: int = self.ask("GET", f"/v1/faults/{rule_id}")["hits"]
        return found

    def await_hits(self, rule_id: int, hits: int = 1) -> Any:
        """Wait for so many hits of a rule."""
        waited = self.post(f"/v1/faults/{rule_id}/wait", hits=hits, timeout_ms=30_000)
        assert waited["met"], waited["message"]
        return waited

    def values(self, topic: str) -> list[str]:
        """Return the values of all records of a topic."""
        return [record["value"] for record in self.ask("GET", f"/v1/topics/{topic}/records")["records"]]
