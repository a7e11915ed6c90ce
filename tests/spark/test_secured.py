"""A job on a secured cluster: SASL_SSL with SCRAM, and the ACLs that the job needs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from py4j.protocol import Py4JJavaError
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from barnabas.testing import Cluster
from spark_jobs import archive
from spark_jobs.archive_tables import read
from spark_jobs.errors import remedy_of
from spark_jobs.files import Folder
from spark_jobs.io import check_topic_ids, kafka_options
from spark_jobs.progress import GroupOffsets

USER, PASSWORD = "spark", "a secret; with 'marks'"
LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required"
ALLOWED = (
    (ResourceType.TOPIC, "orders", AclOperation.READ),
    (ResourceType.TOPIC, "orders", AclOperation.DESCRIBE_CONFIGS),
    (ResourceType.GROUP, "spark-archive", AclOperation.READ),
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster with a user of SCRAM who may do what the job does, and a topic with three records."""
    with Cluster(secure=True) as running:
        running.topic("orders").produce(["one", "two", "three"])
        admin = AdminClient(running.client_config())
        credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        user = UserScramCredentialUpsertion(USER, credential, PASSWORD.encode())
        admin.alter_user_scram_credentials([user])[USER].result(30)
        entries = [
            AclBinding(*(kind, name, ResourcePatternType.LITERAL), f"User:{USER}", "*", can, AclPermissionType.ALLOW)
            for kind, name, can in ALLOWED
        ]
        for created in admin.create_acls(entries).values():
            created.result(30)
        yield running


def options(cluster: Cluster, folder: Path, password: str) -> archive.ArchiveOptions:
    """Return the options of a job that reads those of the connection from a file."""
    settings = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f'{LOGIN} username="{USER}" password="{password}";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": cluster.environment["KAFKA_SSL_CA_LOCATION"],
    }
    file = folder / "job.yaml"
    file.write_text(json.dumps({"kafka": [f"kafka.{name}={value}" for name, value in settings.items()]}))
    return archive.JOB.parsed(
        [
            *("--config", str(file), "-b", cluster.bootstrap, "-t", "orders", "--available-now"),
            *("--checkpoint", str(folder / "checkpoint"), "--to", f"parquet:{folder / 'archive'}"),
        ]
    )


def run(spark: SparkSession, chosen: archive.ArchiveOptions) -> None:
    """Run the job to its end."""
    assert archive.start(spark, chosen).awaitTermination(240)


def test_a_job_with_the_right_password_reads_the_topic(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    chosen = options(cluster, tmp_path, PASSWORD)
    check_topic_ids(spark, chosen)
    run(spark, chosen)
    table = read(spark, Folder(spark, str(tmp_path / "archive")))
    assert table is not None
    assert [bytes(row.value) for row in table.orderBy("offset").collect()] == [b"one", b"two", b"three"]
    GroupOffsets(spark, "spark-archive", kafka_options(chosen)).commit({"orders": {"0": 3}})
    assert cluster.group("spark-archive").committed == {"orders": {0: 3}}


def test_a_wrong_password_ends_the_job_with_one_sentence(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    chosen = options(cluster, tmp_path, "wrong")
    for begin in (check_topic_ids, run):
        with pytest.raises((Py4JJavaError, StreamingQueryException)) as raised:
            begin(spark, chosen)
        assert remedy_of(raised.value) == (
            "the brokers refuse the login (Authentication failed during authentication due to invalid credentials with "
            "SASL mechanism SCRAM-SHA-512): correct -X kafka.sasl.jaas.config"
        )
