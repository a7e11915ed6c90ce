"""Refusals of control requests: a status, a message for the user, and further fields of the response."""

from collections.abc import Mapping
from difflib import get_close_matches
from http import HTTPStatus


class ApiProblem(Exception):  # noqa: N818 - an answer, not a malfunction
    """A request that is refused; `fields` join the message in the response."""

    def __init__(self, status: HTTPStatus, message: str, fields: Mapping[str, object] = {}) -> None:
        super().__init__(message)
        self.status = status
        self.fields = fields


def bad_request(message: str) -> ApiProblem:
    """Return the refusal of an invalid request."""
    return ApiProblem(HTTPStatus.BAD_REQUEST, message)


def not_found(message: str) -> ApiProblem:
    """Return the refusal of a request for something that does not exist."""
    return ApiProblem(HTTPStatus.NOT_FOUND, message)


def conflict(message: str) -> ApiProblem:
    """Return the refusal of a request that the current state does not allow."""
    return ApiProblem(HTTPStatus.CONFLICT, message)


def misdirected(what: str, broker_id: int) -> ApiProblem:
    """Return the refusal of a request that only broker `broker_id` can serve; -1 if no broker can at present."""
    where = f"broker {broker_id}: send the request there" if broker_id >= 0 else "no broker at present: try again"
    return ApiProblem(HTTPStatus.MISDIRECTED_REQUEST, f"{what} is at {where}", {"broker": broker_id})


def did_you_mean(word: str, known: list[str]) -> str:
    """Return "; did you mean X?" for the known word closest to `word`, or the list of the known ones."""
    close = get_close_matches(word, known, n=1)
    return f"; did you mean {close[0]}?" if close else f"; there are: {', '.join(known)}"
