"""Record the sessions under ``tests/golden/sessions``: `python -m tests.clients.sessions.record [CLIENT...]`.

On a fresh broker, each client produces four records to an existing topic, reads them, reads them again as the only
member of a group, and runs its admin operations. Waits without a result are part of a session, so they are short.
"""

import asyncio
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.broker_process import BrokerProcess, free_address
from tests.clients.clients import CLIENTS, Client
from tests.clients.exchange import sample
from tests.clients.sessions.proxy import RecordingProxy
from tests.clients.sessions.replay import GROUP, SETTINGS, TOPIC, prepare
from tests.clients.sessions.transcript import FOLDER, write
from tests.oracles.apache_kafka import kafka_tool

RECORDED = ("java", "confluent-kafka", "franz-go", "kafkajs", "sarama", "kafka-go")
RECORDS = 4
TIMEOUT_S = 60


def main(names: Sequence[str]) -> None:
    for client in CLIENTS:
        if client.name in (names or RECORDED):
            with tempfile.TemporaryDirectory() as folder:
                asyncio.run(record(client, Path(folder)))
            print(f"{client.name}: recorded")


async def record(client: Client, folder: Path) -> None:
    """Record one client's session on a broker of its own."""
    proxy = RecordingProxy()
    await proxy.open()
    broker = BrokerProcess(folder, SETTINGS | {"advertised.listeners": f"PLAINTEXT://{proxy.address}"})
    broker.bootstrap = proxy.bootstrap = free_address()
    with broker:
        prepare(proxy.bootstrap)
        await produce_and_consume(client, proxy.address)
        await consume_as_member(client, proxy.address)
        await administrate(client, proxy.address)
        await proxy.close()
        broker.check_log()
    write(
        FOLDER / f"{client.name}.txt",
        f"{client.name} produces, consumes, joins a group and administrates.",
        proxy.events,
    )


async def produce_and_consume(client: Client, address: str) -> None:
    codec = "gzip" if client.name == "java" else "none"
    command, lines = client.produce(address, TOPIC, codec, sample("session"))
    await printed(command, lines)
    await printed(client.consume(address, TOPIC, RECORDS))


async def consume_as_member(client: Client, address: str) -> None:
    """Run a group member that reads all records, commits, and leaves."""
    process = await asyncio.create_subprocess_exec(
        *client.member(address, TOPIC, GROUP, client.assignors[0]), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    async with asyncio.timeout(TIMEOUT_S):
        seen = 0
        while seen < RECORDS:
            seen += client.parse((await process.stdout.readline()).decode()) is not None
        process.terminate()
        await process.communicate()


async def administrate(client: Client, address: str) -> None:
    if client.name == "java":
        tools = "org.apache.kafka.tools"
        at = ("--bootstrap-server", address)
        await printed(kafka_tool(f"{tools}.TopicCommand", *at, "--create", "--topic", "created", "--partitions", "2"))
        await printed(kafka_tool(f"{tools}.TopicCommand", *at, "--describe", "--topic", "created"))
        await printed(kafka_tool(f"{tools}.consumer.group.ConsumerGroupCommand", *at, "--describe", "--all-groups"))
        await printed(kafka_tool(f"{tools}.TopicCommand", *at, "--delete", "--topic", "created"))
    elif client.has_admin:
        await printed(client.admin(address, "created"))


async def printed(command: Sequence[str], stdin: str = "") -> None:
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(TIMEOUT_S):
        _, errors = await process.communicate(stdin.encode())
    if process.returncode:
        raise RuntimeError(f"{command[0]} ended with {process.returncode}:\n{errors.decode()}")


if __name__ == "__main__":
    main(sys.argv[1:])
