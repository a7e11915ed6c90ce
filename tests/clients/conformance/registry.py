"""The suites, with the broker settings of each and its result on Apache Kafka."""

from tests.clients.conformance import command_line_tools, kafka_it, kafka_python, kgo, librdkafka
from tests.clients.conformance.suite import GROUPS, Quick, Suite

KAFKA_PYTHON = Quick(
    without=(
        *("test_admin_integration.py::test_delete_records", "test_admin_integration.py::test_describe_group_exists"),
        *("test_consumer_integration.py::test_group", "test_consumer_integration.py::test_heartbeat_thread"),
    )
)
KGO = Quick(
    without=(
        *("TestIssue337", "TestIssue434", "TestIssue769", "TestGroupETL", "TestDirectPartitionPurge"),
        *("TestClient_Produce", "TestConsumeMaxDecompressBatchBytes"),
    )
)
KAFKA_IT = Quick(
    ("PlaintextConsumerFetchTest", "ProducerCompressionTest"),
    ("PlaintextConsumerFetchTest.testClassicConsumerLowMaxFetchSizeForRequestAndPartition",),
)

TOOLS = Quick(
    ("topics-create", "topics-describe", "topics-alter", "configs-alter", "get-offsets", "quorum-status", "log-dirs")
)
# Set-up: about four CPU minutes to build it in C and C++, once; then each of these takes seconds.
LIBRDKAFKA = Quick(
    (
        *("0001_multiobj", "0005_order", "0012_produce_consume", "0017_compression"),
        *("0081_admin/CreateTopics", "0081_admin/DescribeCluster", "0081_admin/ListOffsets"),
    )
)
ON_THREE = {
    "kafka-python": Quick(
        (
            "test_producer_integration.py::test_idempotent_producer",
            *(f"test_admin_integration.py::test_{name}" for name in ("create_partitions", "describe_metadata_quorum")),
        )
    ),
    "kafka-it": Quick(("TransactionsTest.testBasicTransactions", "TransactionsTest.testFencingOnCommit")),
    "kgo": Quick(("TestPing", "TestIssue1034")),
}

SECURED = {
    "kafka-python": Quick(
        ("test_sasl_integration.py::test_client", "test_producer_integration.py::test_idempotent_producer")
    ),
    "command-line-tools": Quick(("topics-create", "quorum-status")),
    "librdkafka": Quick(("0012_produce_consume", "0081_admin/CreateAcls", "0135_sasl_credentials/client")),
    "kgo": Quick(("TestSCRAMAuth", "TestSCRAMAuthBadCredentials", "TestPing", "TestIssue1034")),
}

# Some of librdkafka's tests add ACLs for clients without authentication; without ACLs everything is allowed. Several
# brokers would need super users for that, who authenticate.
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}

SUITES = (
    Suite(
        "kafka-python",
        "54 passed, 3 failed, 10 skipped",
        kafka_python.set_up,
        kafka_python.run_tests,
        {"node.id": 0, "num.partitions": 2, **GROUPS},
        KAFKA_PYTHON,
        ON_THREE["kafka-python"],
        SECURED["kafka-python"],
        starts_secured=True,
    ),
    Suite(
        "command-line-tools",
        "28 passed",
        command_line_tools.set_up,
        command_line_tools.run_tests,
        quick=TOOLS,
        quick_on_three=TOOLS,
        secured=SECURED["command-line-tools"],
    ),
    Suite(
        "kgo",
        "149 passed, 3 skipped",
        kgo.set_up,
        kgo.run_tests,
        {"num.partitions": 2, **GROUPS},
        KGO,
        ON_THREE["kgo"],
        SECURED["kgo"],
        protocol="SSL",
    ),
    Suite(
        "kafka-it",
        "not all of them run on one broker",
        kafka_it.set_up,
        kafka_it.run_tests,
        settings=None,
        quick=KAFKA_IT,
        quick_on_three=ON_THREE["kafka-it"],
    ),
    Suite(
        "librdkafka",
        "96 passed, 8 failed (4 of them pass alone), 83 skipped",
        librdkafka.set_up,
        librdkafka.run_tests,
        {"num.partitions": 4, **GROUPS},
        LIBRDKAFKA,
        LIBRDKAFKA,
        SECURED["librdkafka"],
        single=AUTHORIZER,
    ),
)
