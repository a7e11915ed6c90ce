"""What a command decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from controller.image import MetadataImage
from protocol.schema import Message

R = TypeVar("R")


class Decision(NamedTuple, Generic[R]):
    """Records to append to the metadata log, all or none, and what to answer once they are committed."""

    records: tuple[Message, ...]
    response: R


# A command that only waits for the image to decide on. The first record it gives will lie at `image.offset + 1`.
Command: TypeAlias = Callable[[MetadataImage], Decision[R]]
