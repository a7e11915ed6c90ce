from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer

from barnabas.commands._output import CommandError, WrongCall
from barnabas.commands._settings import ALIASES, ClientSettings, GivenSettings, parse_setting, read_settings
from tests.certificates import Certificates
from tests.unit.barnabas.conftest import Command


def of(kind: str, *given: str) -> dict[str, Any]:
    return ClientSettings(GivenSettings([parse_setting(one) for one in given])).of(kind)


@pytest.mark.parametrize("name", ["fetch.max.wait.ms", "fetch_max_wait_ms", "fetch.wait.max.ms"])
def test_setting_accepts_names_of_java_librdkafka_and_kafka_python(name: str) -> None:
    assert of(KafkaConsumer, f"{name}=7") == {"fetch_max_wait_ms": 7}


def test_every_alias_names_an_existing_setting() -> None:
    known = {*KafkaAdminClient.DEFAULT_CONFIG, *KafkaConsumer.DEFAULT_CONFIG, *KafkaProducer.DEFAULT_CONFIG}
    assert set(ALIASES.values()) <= known


def test_values_are_converted_to_the_types_of_the_client() -> None:
    given = ("acks=all", "enable.idempotence=false", "linger.ms=3", "security.protocol=SASL_SSL")
    assert of(KafkaProducer, *given) == {
        "acks": "all",
        "enable_idempotence": False,
        "linger_ms": 3,
        "security_protocol": "SASL_SSL",
    }
    assert of(KafkaConsumer, "topic.auto.offset.reset=smallest") == {"auto_offset_reset": "earliest"}


@pytest.mark.parametrize("name", ["sasl.mechanism", "sasl.mechanisms", "sasl_mechanisms"])
def test_name_that_only_ends_like_a_unit_is_not_a_number(name: str) -> None:
    assert of(KafkaAdminClient, f"{name}=PLAIN") == {"sasl_mechanism": "PLAIN"}


def test_a_client_gets_only_the_settings_it_has() -> None:
    assert of(KafkaAdminClient, "isolation.level=read_committed", "request.timeout.ms=1") == {"request_timeout_ms": 1}


def test_later_settings_override_earlier_ones() -> None:
    assert of(KafkaAdminClient, "client.id=a", "client_id=b") == {"client_id": "b"}


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ("nonsense.ms=1", "-X nonsense.ms: there is no such setting"),
        ("sasl.mechnism=PLAIN", "did you mean sasl.mechanism"),
        ("request.timeout.ms=soon", "write a number"),
        ("ssl.check.hostname=perhaps", "write true or false"),
        ("security.protocol=MAGIC", "write one of PLAINTEXT, SSL"),
        ("isolation.level=read", "isolation.level=read: write one of read_committed, read_uncommitted"),
        ("auto.offset.reset=first", "auto.offset.reset=first: write one of earliest, latest, none"),
        ("bootstrap.servers=far:9092", "bootstrap.servers=far:9092: write the brokers' addresses as -b far:9092"),
        ("metadata.broker.list=far:9092", "write the brokers' addresses as -b far:9092"),
    ],
)
def test_what_cannot_be_is_refused(given: str, complaint: str) -> None:
    with pytest.raises(WrongCall, match=complaint):
        of(KafkaConsumer, given)


def test_settings_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "client.conf"
    path.write_text("# where\n\nclient.id = me\n")
    assert read_settings(str(path)) == [("client.id", "me")]
    path.write_text("\nclient.id\n")
    with pytest.raises(WrongCall, match=r"client\.conf, line 2: write it as NAME=VALUE$"):
        read_settings(str(path))
    path.write_text("MIGHAgEAMBMGByqGSM49==\n")
    with pytest.raises(WrongCall, match=r"client\.conf, line 1: that is not the name of a setting before the =$"):
        read_settings(str(path))
    path.write_bytes(b"client.id=\xff\n")
    with pytest.raises(CommandError, match="not UTF-8"):
        read_settings(str(path))
    with pytest.raises(CommandError, match="cannot read"):
        read_settings(str(tmp_path / "missing"))


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("ssl.truststore.type=PEM", "a file of Kafka's tools is for --command-config"),
        ("sasl.mechnism=PLAIN", "did you mean sasl.mechanism"),
    ],
)
def test_unknown_setting_of_a_file_is_named_with_its_line(tmp_path: Path, line: str, hint: str) -> None:
    path = tmp_path / "client.properties"
    path.write_text(f"bootstrap.servers=one:1\n{line}\n")
    with pytest.raises(WrongCall) as refused:
        read_settings(str(path))
    assert str(refused.value).startswith(f"{path}, line 2: there is no setting {line.partition('=')[0]}; {hint}")


@pytest.mark.parametrize("option", ["-F", "--command-config"])
def test_messages_name_the_file_of_a_setting(call: Command, tmp_path: Path, option: str) -> None:
    path = tmp_path / "client.properties"
    path.write_text("request.timeout.ms=soon\n")
    shown = call("topic", "list", option, str(path))
    assert shown == (2, "", f"barnabas topic list: {path}: request.timeout.ms=soon: write a number\n")


@pytest.mark.parametrize("option", ["-F", "--command-config"])
@pytest.mark.parametrize("beginning", ["", "Bag Attributes\n    localKeyID: 01\n"])
def test_file_of_a_private_key_is_refused_and_not_shown(
    call: Command, tmp_path: Path, option: str, beginning: str
) -> None:
    path = tmp_path / "broker.pem"
    path.write_text(beginning + Certificates(tmp_path).alice.read_text())
    shown = call("topic", "list", option, str(path))
    assert shown == (2, "", f"barnabas topic list: {path} is a PEM file, not settings\n")


def test_a_setting_is_written_with_an_equals_sign() -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        parse_setting("client.id")


def test_settings_reach_the_client(barnabas: Command, topic: str) -> None:
    shown = barnabas("topic", "list", "-X", "nonsense=1")
    assert shown == (2, "", "barnabas topic list: -X nonsense: there is no such setting\n")
    shown = barnabas("consume", topic, "-X", "fetch.max.wait.ms=99999999")
    assert (shown.status, shown.out) == (2, "")
    assert shown.err.startswith("barnabas consume: invalid client settings: ")
    assert "Error" not in shown.err
