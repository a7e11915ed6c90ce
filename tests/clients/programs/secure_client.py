"""Clients of Python on secured listeners: `secure_client.py confluent-kafka|kafka-python|aiokafka`.

The standard input is one line, a JSON list of jobs that run at the same time; the programs in Go, JavaScript and Java
have the same interface. A job writes the texts 0, 1, 2 ... to its topic and reads them back meanwhile: as many as
`records`, or if that is null, until the file `stop` exists. Two kinds of lines are printed:

    {"job": NAME, "running": true}                       the first record was written and read
    {"job": NAME, "values": [...], "error": TEXT|null}   the job's end: what was read, and the error of the application
"""

import asyncio
import json
import logging
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import aiokafka
import kafka
from aiokafka.abc import AbstractTokenProvider as AioTokenProvider
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from kafka.net.sasl.oauth import AbstractTokenProvider

BOOTSTRAP_S = 10
"""How long kafka-python tries to connect."""
PACE_S = 0.03
PATIENCE_S = 20


class Warnings(logging.Handler):
    """Keeps the log lines of clients: kafka-python and aiokafka log the cause of what they raise without it."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._lines: dict[str, None] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        self._lines[record.getMessage()] = None

    def of(self, address: str) -> list[str]:
        """Return the lines that name an address."""
        return [line for line in self._lines if address in line]


WARNINGS = Warnings()


class Job(NamedTuple):
    """One job; `identity` is a PEM file with key and certificate, or empty; `token_url` is a file with the token."""

    name: str
    topic: str
    bootstrap: str
    protocol: str
    mechanism: str
    user: str
    password: str
    token: str
    token_url: str
    trusted: str
    identity: str
    records: int | None
    stop: str


class Client(Protocol):
    """A producer and a consumer of a job."""

    def send(self, value: str) -> None:
        """Begin to write; an error of an earlier record is raised here or by `flush`."""

    def flush(self) -> None: ...

    def read(self) -> list[bytes | None]:
        """Return what was read within `PACE_S`."""


class Confluent:
    """librdkafka."""

    def __init__(self, job: Job) -> None:
        self._failed: list[KafkaError] = []
        self._noticed: list[KafkaError] = []
        settings: dict[str, Any] = {
            "bootstrap.servers": job.bootstrap,
            "client.id": job.name,
            "security.protocol": job.protocol,
            "error_cb": self._noticed.append,
            "log_level": 0,
        }
        if "SSL" in job.protocol.split("_"):
            settings["ssl.ca.location"] = job.trusted
        if job.identity:
            settings |= {"ssl.certificate.location": job.identity, "ssl.key.location": job.identity}
        if job.mechanism == "OAUTHBEARER":
            settings |= {"sasl.mechanisms": job.mechanism, "oauth_cb": lambda _: (job.token, time.time() + 3600)}
        elif job.mechanism:
            settings |= {
                "sasl.mechanisms": job.mechanism,
                "sasl.username": job.user,
                "sasl.password": job.password,
            }
        self._producer = Producer(
            {**settings, "enable.idempotence": True, "linger.ms": 0, "message.timeout.ms": PATIENCE_S * 1000}
        )
        self._settings = {**settings, "group.id": job.name}
        self._topic = job.topic
        self._consumer: Consumer | None = None

    def send(self, value: str) -> None:
        self._producer.produce(self._topic, value, on_delivery=self._delivered)
        self._producer.poll(0)
        self._check()

    def flush(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while self._producer.flush(0.1) and time.monotonic() < deadline:
            self._check()
        self._check()

    def read(self) -> list[bytes | None]:
        if self._consumer is None:
            self._consumer = Consumer(self._settings)
            self._consumer.assign([TopicPartition(self._topic, 0, 0)])
        messages = self._consumer.consume(100, PACE_S)
        for message in messages:
            error = message.error()
            if error is not None:
                raise RuntimeError(error.str())
        return [message.value() for message in messages]

    def _delivered(self, error: KafkaError | None, _: object) -> None:
        if error is not None:
            self._failed.append(error)

    def _check(self) -> None:
        """Raise for a lost record or refused credentials; lost connections are notices only."""
        refused = [one for one in self._noticed if one.code() == KafkaError._AUTHENTICATION or " alert " in one.str()]
        if self._failed or refused:
            raise RuntimeError("; ".join(error.str() for error in refused + self._failed + self._noticed))


def certified(job: Job) -> ssl.SSLContext | None:
    """Return the TLS context of a client of Python, if its protocol has one."""
    if "SSL" not in job.protocol.split("_"):
        return None
    context = ssl.create_default_context(cafile=job.trusted)
    if job.identity:
        context.load_cert_chain(job.identity)
    return context


class KafkaPythonToken(AbstractTokenProvider):  # type: ignore[misc]
    """The token of a job, for kafka-python."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    def token(self) -> str:
        return self._token


class AioToken(AioTokenProvider):  # type: ignore[misc]
    """The token of a job, for aiokafka."""

    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token


def python_settings(job: Job) -> dict[str, Any]:
    """Return the settings that kafka-python and aiokafka share."""
    settings: dict[str, Any] = {
        "bootstrap_servers": job.bootstrap,
        "client_id": job.name,
        "security_protocol": job.protocol,
        "ssl_context": certified(job),
    }
    if job.mechanism:
        settings["sasl_mechanism"] = job.mechanism
    if job.mechanism and job.mechanism != "OAUTHBEARER":
        settings |= {"sasl_plain_username": job.user, "sasl_plain_password": job.password}
    return settings


class KafkaPython:
    """kafka-python."""

    def __init__(self, job: Job) -> None:
        self._settings = python_settings(job)
        if job.mechanism == "OAUTHBEARER":
            self._settings["sasl_oauth_token_provider"] = KafkaPythonToken(job.token)
        self._topic = job.topic
        self._producer = kafka.KafkaProducer(
            **self._settings, max_block_ms=PATIENCE_S * 1000, bootstrap_timeout_ms=BOOTSTRAP_S * 1000
        )
        self._consumer: kafka.KafkaConsumer | None = None
        self._sent: list[Any] = []

    def send(self, value: str) -> None:
        self._sent.append(self._producer.send(self._topic, value.encode()))
        while self._sent and self._sent[0].is_done:
            self._sent.pop(0).get(0)

    def flush(self) -> None:
        for future in self._sent:
            future.get(PATIENCE_S)
        self._sent.clear()

    def read(self) -> list[bytes | None]:
        if self._consumer is None:
            self._consumer = kafka.KafkaConsumer(**self._settings)
            partition = kafka.TopicPartition(self._topic, 0)
            self._consumer.assign([partition])
            self._consumer.seek(partition, 0)
        found = self._consumer.poll(timeout_ms=int(PACE_S * 1000))
        return [record.value for records in found.values() for record in records]


class Aiokafka:
    """aiokafka, whose loop runs during each call."""

    def __init__(self, job: Job) -> None:
        self._loop = asyncio.new_event_loop()
        self._settings = python_settings(job)
        if job.mechanism == "OAUTHBEARER":
            self._settings["sasl_oauth_token_provider"] = AioToken(job.token)
        self._topic = job.topic
        self._sent: list[asyncio.Future[Any]] = []
        self._consumer: aiokafka.AIOKafkaConsumer | None = None
        self._producer: aiokafka.AIOKafkaProducer
        self._loop.run_until_complete(self._start())

    async def _start(self) -> None:
        self._producer = aiokafka.AIOKafkaProducer(**self._settings, enable_idempotence=True)
        await self._producer.start()

    def send(self, value: str) -> None:
        self._sent.append(self._loop.run_until_complete(self._producer.send(self._topic, value.encode(), partition=0)))
        while self._sent and self._sent[0].done():
            self._sent.pop(0).result()

    def flush(self) -> None:
        for future in self._sent:
            self._loop.run_until_complete(asyncio.wait_for(future, PATIENCE_S))
        self._sent.clear()

    def read(self) -> list[bytes | None]:
        return self._loop.run_until_complete(self._read())

    async def _read(self) -> list[bytes | None]:
        if self._consumer is None:
            self._consumer = aiokafka.AIOKafkaConsumer(**self._settings)
            await self._consumer.start()
            partition = aiokafka.TopicPartition(self._topic, 0)
            self._consumer.assign([partition])
            self._consumer.seek(partition, 0)
        found = await self._consumer.getmany(timeout_ms=int(PACE_S * 1000))
        return [record.value for records in found.values() for record in records]


def wanted(job: Job) -> Iterator[str]:
    """Yield the values that the job writes."""
    number = 0
    while number < job.records if job.records is not None else not Path(job.stop).exists():
        yield str(number)
        number += 1


def run(job: Job, connect: Callable[[Job], Client]) -> None:
    """Run one job, and print its lines."""
    values: list[str] = []
    failure: str | None = None

    def read(client: Client) -> None:
        was_running = bool(values)
        values.extend((value or b"").decode() for value in client.read())
        if values and not was_running:
            print(json.dumps({"job": job.name, "running": True}) + "\n", end="", flush=True)

    try:
        client = connect(job)
        sent = 0
        for value in wanted(job):
            client.send(value)
            if not sent:
                client.flush()
            sent += 1
            read(client)
        client.flush()
        deadline = time.monotonic() + PATIENCE_S
        while len(values) < sent and time.monotonic() < deadline:
            read(client)
    except Exception as error:
        causes = [error]
        while (cause := causes[-1].__cause__) is not None and isinstance(cause, Exception):
            causes.append(cause)
        texts = [f"{type(cause).__name__}: {cause}" for cause in causes]
        failure = "; ".join((*texts, *WARNINGS.of(job.bootstrap)))
    print(json.dumps({"job": job.name, "values": values, "error": failure}) + "\n", end="", flush=True)


def main() -> None:
    """Run the jobs of the standard input, each in a thread."""
    logging.getLogger().addHandler(WARNINGS)
    connect = {"confluent-kafka": Confluent, "kafka-python": KafkaPython, "aiokafka": Aiokafka}[sys.argv[1]]
    jobs = [Job(**given) for given in json.loads(sys.stdin.readline())]
    threads = [threading.Thread(target=run, args=(job, connect), daemon=True) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


main()
