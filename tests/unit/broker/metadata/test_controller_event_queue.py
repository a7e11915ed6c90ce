"""Controller commands from submission to response, with a real Raft node and an in-memory log."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from typing import Any

import pytest

from broker.metadata.controller_event_queue import ControllerEventQueue, not_controller
from controller.commands.controller_result import ControllerResult
from controller.image import MetadataImage
from controller.image_builder import apply_records
from controller.raft.log import RaftLog
from controller.raft.messages import ElectionState
from controller.raft.raft_node import RaftNode
from controller.raft.voter_history import VoterHistory
from controller.raft.voters import Voter, VoterSet
from protocol.errors import ErrorCode, InvariantError, KafkaError
from protocol.records.metadata import ConfigRecord, RemoveTopicRecord
from protocol.schema import Message
from tests.typed import instance, present
from tests.unit.broker.node import VirtualLoop

EMPTY = MetadataImage(cluster_id="cluster")
BROKER = 4


class Controller:
    """A quorum of one node with an in-memory log, and the commands submitted to it."""

    def __init__(self) -> None:
        self.loop = VirtualLoop()
        self.queue = ControllerEventQueue(self.loop)
        self.node = RaftNode(1, VoterHistory(VoterSet([Voter(1)])), ElectionState(), RaftLog(0, 0))
        self.node.campaign(0)
        self.store()
        self.image = EMPTY

    def store(self) -> list[tuple[Message, ...]]:
        """Make the proposals durable; return the records of each entry."""
        stored = []
        while (ready := self.node.ready()) is not None:
            stored += [entry.records for entry in ready.entries]
            self.node.advance(ready, 0)
        return stored

    def submit(self, *records: ConfigRecord | RemoveTopicRecord, response: str | None = None) -> asyncio.Future[Any]:
        return self.queue.submit(lambda _: ControllerResult(records, response))

    def decide(self) -> None:
        self.queue.decide(self.node, self.image)

    def apply(self) -> None:
        self.queue.applied(self.node.end_offset)


@pytest.fixture
def controller() -> Iterator[Controller]:
    made = Controller()
    yield made
    made.loop.close()


def setting(value: str) -> ConfigRecord:
    return ConfigRecord(resource_type=BROKER, resource_name="", name="log.cleaner.threads", value=value)


def values(image: MetadataImage) -> list[str]:
    return list(image.configs(BROKER, "").values())


def test_command_completes_when_its_records_are_applied(controller: Controller) -> None:
    answer = controller.submit(setting("2"), response="done")
    assert controller.queue
    controller.decide()
    assert not controller.queue
    assert controller.store() == [(setting("2"),)]
    assert not answer.done()
    controller.apply()
    assert answer.result() == "done"


def test_command_sees_uncommitted_records_of_earlier_commands(controller: Controller) -> None:
    seen = []

    def look(image: MetadataImage) -> ControllerResult[Any]:
        seen.extend(values(image))
        return ControllerResult((), len(seen))

    controller.submit(setting("2"))
    looked = controller.queue.submit(look)
    controller.decide()
    assert seen == ["2"]
    assert not looked.done(), "it rests on records that may not come to be"
    later = controller.queue.submit(look)
    controller.decide()
    controller.apply()
    assert (looked.result(), later.result()) == (1, 2)


def test_commands_complete_in_order_once_their_records_are_applied(controller: Controller) -> None:
    first, second = controller.submit(setting("2")), controller.submit(setting("3"), setting("4"))
    controller.decide()
    controller.queue.applied(controller.node.end_offset - 2)
    assert (first.done(), second.done()) == (True, False)
    controller.queue.applied(controller.node.end_offset - 1)
    assert not second.done()
    controller.apply()
    assert second.done()


def test_error_waits_for_commit_of_records_it_depends_on(controller: Controller) -> None:
    def refuse(image: MetadataImage) -> ControllerResult[str]:
        if values(image):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "gone")
        return ControllerResult((), "there")

    controller.submit(setting("2"))
    refused = controller.queue.submit(refuse)
    controller.decide()
    assert not refused.done(), "another leader may not have these records"
    controller.apply()
    assert instance(KafkaError, refused.exception()).code is ErrorCode.UNKNOWN_TOPIC_ID
    controller.submit(setting("3"))
    lost = controller.queue.submit(refuse)
    controller.decide()
    controller.queue.fail(not_controller())
    assert instance(KafkaError, lost.exception()).code is ErrorCode.NOT_CONTROLLER


def test_exception_of_command_fails_only_that_command(controller: Controller) -> None:
    def refuse(_: MetadataImage) -> ControllerResult[str]:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "no")

    refused = controller.queue.submit(refuse)
    taken = controller.submit(setting("2"))
    controller.decide()
    controller.apply()
    assert instance(KafkaError, refused.exception()).code is ErrorCode.INVALID_REQUEST
    assert taken.exception() is None


def test_records_that_cannot_be_applied_never_reach_the_log(controller: Controller) -> None:
    answer = controller.submit(RemoveTopicRecord(topic_id=b"t" * 16))
    controller.decide()
    assert isinstance(answer.exception(), InvariantError)
    assert controller.store() == []


def test_the_image_after_an_entry_is_the_one_that_it_was_decided_with(controller: Controller) -> None:
    controller.submit(setting("2"))
    controller.submit()
    controller.decide()
    end = controller.node.end_offset
    assert values(present(controller.queue.image_after(end))) == ["2"]
    assert controller.queue.image_after(end - 1) is None
    controller.apply()
    assert controller.queue.image_after(end) is None


def test_failed_append_fails_dependent_commands_but_not_queued_ones(controller: Controller) -> None:
    first = controller.submit(setting("2"))
    on_it = controller.submit()
    controller.decide()
    waits = controller.queue.submit(lambda image: ControllerResult((), values(image)))
    controller.queue.fail_from(0, KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "full"))
    assert (
        instance(KafkaError, first.exception()).code
        is instance(KafkaError, on_it.exception()).code
        is ErrorCode.KAFKA_STORAGE_ERROR
    )
    controller.decide()
    controller.apply()
    assert waits.result() == [], "it is decided on the image without them"


def test_records_appended_before_failed_ones_stay_pending(controller: Controller) -> None:
    stored = controller.submit(setting("2"))
    controller.decide()
    end = controller.node.end_offset
    refused = controller.submit(setting("3"))
    controller.decide()
    controller.queue.fail_from(end, KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "full"))
    assert instance(KafkaError, refused.exception()).code is ErrorCode.KAFKA_STORAGE_ERROR
    assert not stored.done()
    later = controller.queue.submit(lambda image: ControllerResult((), values(image)))
    controller.decide()
    controller.apply()
    assert (stored.exception(), later.result()) == (None, ["2"])


def test_leadership_loss_fails_all_commands_with_not_controller(controller: Controller) -> None:
    decided = controller.submit(setting("2"))
    controller.decide()
    queued = controller.submit()
    controller.queue.fail(KafkaError(ErrorCode.NOT_CONTROLLER, "another leads"))
    assert (
        instance(KafkaError, decided.exception()).code
        is instance(KafkaError, queued.exception()).code
        is ErrorCode.NOT_CONTROLLER
    )
    assert not controller.queue
    controller.image = apply_records(EMPTY, [setting("9")], offset=8, epoch=2)
    again = controller.queue.submit(lambda image: ControllerResult((), values(image)))
    controller.decide()
    controller.apply()
    assert again.result() == ["9"], "nothing is left of what was pending"


def test_only_committed_commands_complete_at_timeout(controller: Controller) -> None:
    first = controller.submit(ConfigRecord(resource_type=BROKER, resource_name="", name="a", value="1"), response="a")
    controller.decide()
    end_offset = controller.node.end_offset
    second = controller.submit(ConfigRecord(resource_type=BROKER, resource_name="", name="b", value="1"), response="b")
    third = controller.submit(response="c")
    controller.decide()
    wait = controller.loop.run_until_complete
    assert wait(controller.queue.wait_for(first, 10, lambda: end_offset)) == "a"
    for later in (second, third):
        with pytest.raises(KafkaError) as late:
            wait(controller.queue.wait_for(later, 10, lambda: end_offset))
        assert late.value.code is ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.parametrize("comes_first", [True, False])
def test_response_in_same_loop_iteration_as_timeout_wins(controller: Controller, comes_first: bool) -> None:
    answer = controller.submit(setting("2"), response="done")
    controller.decide()

    async def wait() -> str:
        if comes_first:
            controller.loop.call_later(0.01, controller.apply)
        else:
            controller.loop.call_soon(controller.loop.call_later, 0.01, controller.apply)
        return await controller.queue.wait_for(answer, 10, lambda: 0)

    assert controller.loop.run_until_complete(wait()) == "done"


def test_unawaited_failure_is_not_reported_by_loop(controller: Controller) -> None:
    complaints = []
    controller.loop.set_exception_handler(lambda _, context: complaints.append(context))
    late, gone = controller.submit(setting("2")), controller.submit(setting("3"))
    waiting = controller.loop.create_task(controller.queue.wait_for(gone, None, lambda: 0))
    with pytest.raises(KafkaError):
        controller.loop.run_until_complete(controller.queue.wait_for(late, 10, lambda: 0))
    waiting.cancel()
    controller.loop.run_until_complete(asyncio.wait([waiting]))
    controller.queue.fail(KafkaError(ErrorCode.NOT_CONTROLLER, "another leads"))
    del late, gone
    gc.collect()
    assert complaints == []


def test_cancelled_command_gets_no_response(controller: Controller) -> None:
    answers = [controller.submit(setting("2")), controller.submit()]
    for answer in answers:
        answer.cancel()
    controller.decide()
    assert controller.store() == [(setting("2"),)], "it is decided all the same"
    controller.apply()
    controller.queue.fail(asyncio.CancelledError())  # type: ignore[arg-type]  # always this type here
    assert all(answer.cancelled() for answer in answers)
