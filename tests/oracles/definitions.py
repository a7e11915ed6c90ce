"""Apache Kafka's definitions of messages and stored records, as JSON from its jars."""

import json
import re
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from tests.oracles.apache_kafka import kafka_classpath

HOLDERS = ("clients", "metadata", "group-coordinator", "transaction-coordinator", "raft", "storage")


def kafka_definitions() -> dict[str, dict[str, Any]]:
    """Return the definitions by name; skip if the jars are not available."""
    found = {}
    for jar in Path(kafka_classpath().removesuffix("*")).glob("kafka-*.jar"):
        if jar.name.rpartition("-")[0].removeprefix("kafka-") in HOLDERS:
            with ZipFile(jar) as members:
                for name in members.namelist():
                    if re.fullmatch(r"(common/)?(message|metadata)/\w+\.json", name):
                        text = re.sub(r"^\s*//.*$", "", members.read(name).decode(), flags=re.MULTILINE)
                        definition = json.loads(text)
                        found[definition["name"]] = definition
    return found
