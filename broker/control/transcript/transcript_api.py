"""The operations of the control API on the transcript, and its last lines for the messages of waits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from broker.control.api_problem import bad_request, did_you_mean
from broker.control.bodies import NumberRange
from broker.control.http_api import ApiResponse
from broker.control.transcript.decoding import described, line_of, names_topic, request_of
from broker.routes import ROUTES
from protocol.api import APIS
from protocol.primitives import uuid_text

if TYPE_CHECKING:
    from broker.control.control import Control
    from broker.control.transcript.exchange import Exchange

_JSON_LINES = "application/x-ndjson"
_TEXT = "text/plain; charset=utf-8"
_SENDERS = {"clients": False, "brokers": True, "any": None}


class TranscriptQuery(NamedTuple):
    """Which exchanges: the last `limit` after a number, of a client, an API or a topic; `follow` for those to come."""

    client_id: str | None = None
    api: str | None = None
    topic: str | None = None
    sender: Literal["clients", "brokers", "any"] = "clients"
    after: Annotated[int, NumberRange(0)] = 0
    limit: Annotated[int, NumberRange(0)] = 100
    format: Literal["json", "text"] = "json"
    follow: bool = False


async def read_transcript(control: Control, query: TranscriptQuery) -> ApiResponse:
    """Return the exchanges, one in each line, in the order of their arrival; those to come as they are completed."""
    matches = _condition(control, query)
    return ApiResponse(_lines(control, query, matches), content_type=_TEXT if query.format == "text" else _JSON_LINES)


async def delete_transcript(control: Control) -> dict[str, Any]:
    """Forget all exchanges so far."""
    control.transcript.clear()
    return {}


def last_requests(control: Control, count: int) -> list[str]:
    """Return the last `count` exchanges with clients as lines of text."""
    found = [exchange for exchange in control.transcript if not exchange.from_broker]
    return [line_of(exchange) for exchange in found[-count:]]


async def _lines(control: Control, query: TranscriptQuery, matches: Callable[[Exchange], bool]) -> AsyncIterator[str]:
    following: asyncio.Queue[Exchange] = asyncio.Queue()
    unsubscribe = control.completed.source(following.put_nowait) if query.follow else None
    try:
        found = [exchange for exchange in control.transcript if matches(exchange)]
        for exchange in found[len(found) - min(len(found), query.limit) :]:
            if not query.follow or exchange.took_ms is not None:
                yield _line(control, query, exchange)
        while query.follow:
            exchange = await following.get()
            if matches(exchange):
                yield _line(control, query, exchange)
    finally:
        if unsubscribe is not None:
            unsubscribe()


def _line(control: Control, query: TranscriptQuery, exchange: Exchange) -> str:
    if query.format == "text":
        return f"{line_of(exchange)}\n"
    return f"{json.dumps(described(exchange, control.node.shared.settings.node_id), ensure_ascii=False)}\n"


def _condition(control: Control, query: TranscriptQuery) -> Callable[[Exchange], bool]:
    key = None
    if query.api is not None:
        keys = {APIS[one].name.lower(): one for one in ROUTES}
        key = keys.get(query.api.lower())
        if key is None:
            names = [APIS[one].name for one in ROUTES]
            raise bad_request(f"api: this broker serves no API {query.api}{did_you_mean(query.api, names)}")
    from_broker = _SENDERS[query.sender]
    topic = None if query.topic is None else control.node.shared.raft.image.topic(query.topic)
    topic_id = "" if topic is None else uuid_text(topic.topic_id)

    def tests(exchange: Exchange) -> Iterator[bool]:
        yield exchange.number > query.after
        yield from_broker in (None, exchange.from_broker)
        yield key in (None, exchange.header.api_key)
        yield query.client_id in (None, exchange.header.client_id)
        yield query.topic is None or names_topic(request_of(exchange), query.topic, topic_id)

    return lambda exchange: all(tests(exchange))
