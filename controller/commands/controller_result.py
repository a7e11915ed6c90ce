"""The result of a command (Kafka: `ControllerResult`)."""

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from controller.image import MetadataImage
from protocol.schema import Message

R = TypeVar("R")


class ControllerResult(NamedTuple, Generic[R]):
    """Records to append to the metadata log, all or none, and the response to send once they are committed."""

    records: tuple[Message, ...]
    response: R


# A command with its request bound, to be run on an image. Its first record gets the offset `image.offset + 1`.
Command: TypeAlias = Callable[[MetadataImage], ControllerResult[R]]
