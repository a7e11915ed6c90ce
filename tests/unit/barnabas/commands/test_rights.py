"""Commands of a user without rights: each names the operation and the resource, and the entry that allows it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from barnabas.commands._rights import needs
from tests.broker_process import BrokerProcess
from tests.typed import present
from tests.unit.barnabas.conftest import Command, Shown

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
ON_CLUSTER = "this user is not authorized: it needs {0} on the cluster (`{1} --operation {0} --cluster`)\n"
ON_TOPIC = "this user is not authorized: it needs {0} on topic {2} (`{1} --operation {0} --topic {2}`)\n"
ADD = "barnabas acl add --allow-principal User:alice"
AsAlice = Callable[..., Shown]


class Guarded:
    """A broker in which its own listener's clients may do everything, and alice, who logs in, nothing."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker

    def address(self, listener: str) -> str:
        return present(re.search(rf"{listener}://(127\.0\.0\.1:\d+)", self.broker.log.read_text()))[1]


@pytest.fixture(scope="module")
def guarded_login(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{PLAIN} user_alice="right";',
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "group.initial.rebalance.delay.ms": 0,
    }
    with BrokerProcess(tmp_path_factory.mktemp("guarded-login"), settings) as running:
        yield Guarded(running)
    assert "Traceback" not in running.log.read_text()


@pytest.fixture
def everything(call: Command, guarded_login: Guarded) -> Command:
    """Return a function that runs a command as a super user."""
    return lambda *words, **how: call(*words, "-b", guarded_login.address("PLAINTEXT"), **how)


@pytest.fixture
def as_alice(call: Command, guarded_login: Guarded) -> AsAlice:
    """Return a function that runs a command as alice."""
    settings = (
        "security.protocol=SASL_PLAINTEXT",
        "sasl.mechanism=PLAIN",
        "sasl.username=alice",
        "sasl.password=right",
    )
    options = ("-b", guarded_login.address("SASL_PLAINTEXT"), *(f"-X{one}" for one in settings))
    return lambda *words, **how: call(*words, *options, **how)


@pytest.mark.parametrize(
    ("words", "operation"),
    [
        ("acl list", "DESCRIBE"),
        ("acl add --allow-principal User:bob --topic t", "ALTER"),
        ("acl add --allow-principal User:bob --topic t --dry-run", "ALTER"),
        ("acl remove --topic t --dry-run", "ALTER"),
        ("quota list", "DESCRIBE_CONFIGS"),
        ("quota set --user bob producer_byte_rate=1", "ALTER_CONFIGS"),
        ("quota remove --user bob", "ALTER_CONFIGS"),
        ("cluster", "DESCRIBE"),
        ("cluster quorum", "DESCRIBE"),
        ("cluster log-dirs", "DESCRIBE"),
        ("config list", "DESCRIBE_CONFIGS"),
        ("user list", "DESCRIBE"),
        ("user add bob --dry-run", "ALTER"),
        ("user delete bob", "ALTER"),
    ],
)
def test_right_on_the_cluster_is_named(as_alice: AsAlice, words: str, operation: str) -> None:
    shown = as_alice(*words.split())
    assert (shown.status, shown.out) == (1, "")
    command = re.match(r"[a-z]+(?: (?:list|add|remove|set|delete|quorum|log-dirs))?", words)
    assert shown.err == f"barnabas {present(command)[0]}: {ON_CLUSTER.format(operation, ADD)}"


def test_right_of_each_result_is_named(as_alice: AsAlice, everything: Command) -> None:
    shown = as_alice("acl", "remove", "--topic", "t")
    assert shown == (1, "", f"barnabas acl remove: topic/t (literal): {ON_CLUSTER.format('ALTER', ADD)}")
    shown = as_alice("config", "list", "brokers")
    assert shown == (1, "", f"barnabas config list: brokers: {ON_CLUSTER.format('DESCRIBE_CONFIGS', ADD)}")
    shown = as_alice("topic", "create", "made")
    assert shown == (1, "", f"barnabas topic create: made: {ON_TOPIC.format('CREATE', ADD, 'made')}")
    assert everything("topic", "create", "named").status == 0
    allow = ("acl", "add", "--allow-principal", "User:alice", "--operation", "describe", "--topic", "named")
    assert everything(*allow).status == 0
    for words, operation in ((("delete", "named"), "DELETE"), (("alter", "named", "--partitions", "2"), "ALTER")):
        shown = as_alice("topic", *words)
        assert shown == (1, "", f"barnabas topic {words[0]}: named: {ON_TOPIC.format(operation, ADD, 'named')}")
    shown = as_alice("config", "list", "topic/named")
    assert shown.err.endswith(ON_TOPIC.format("DESCRIBE_CONFIGS", ADD, "named"))


def test_producer_without_write_learns_that_it_needs_it(as_alice: AsAlice, everything: Command) -> None:
    assert everything("topic", "create", "read").status == 0
    allow = ("acl", "add", "--allow-principal", "User:alice", "--operation", "read", "--topic", "read")
    assert everything(*allow).status == 0
    shown = as_alice("produce", "read", stdin=b"1\n")
    refused = (
        "barnabas produce: 1 record was not acknowledged: this user is not authorized: it needs WRITE on topic read"
    )
    assert shown == (1, "", f"{refused} (`{ADD} --operation WRITE --topic read`)\n")
    shown = as_alice("produce", "read", "--acks", "1", stdin=b"1\n")
    assert shown == (1, "", f"{refused}, and CREATE if it does not exist (`{ADD} --producer --topic read`)\n")


def test_rights_on_groups_and_records_are_named(as_alice: AsAlice, everything: Command) -> None:
    assert everything("produce", "seen", stdin=b"1\n2\n").status == 0
    assert everything("consume", "seen", "--group", "seen", "--exit").status == 0

    def refused(operation: str, kind: str, user: str = "alice") -> str:
        add = f"barnabas acl add --allow-principal User:{user} --operation {operation} --{kind} seen"
        return f"this user is not authorized: it needs {operation} on {kind} seen (`{add}`)"

    shown = as_alice("group", "describe", "seen")
    assert shown == (1, "", f"barnabas group describe: {refused('DESCRIBE', 'group', 'NAME')}\n")
    allow = ("acl", "add", "--allow-principal", "User:alice", "--operation")
    assert everything(*allow, "describe", "--topic", "seen", "--group", "seen").status == 0
    shown = as_alice("group", "delete", "seen")
    assert shown == (1, "", f"barnabas group delete: seen: {refused('DELETE', 'group')}\n")
    assert refused("READ", "group") in as_alice("group", "seek", "seen", "--to", "start").out
    shown = as_alice("topic", "trim", "seen", "--to", "1")
    assert shown == (1, "", f"barnabas topic trim: {refused('DELETE', 'topic')}\n")
    shown = as_alice("consume", "seen", "--exit")
    assert shown == (1, "", f"barnabas consume: {refused('READ', 'topic', 'NAME')}\n")
    assert everything(*allow, "read", "--group", "seen").status == 0
    assert refused("READ", "topic") in as_alice("group", "seek", "seen", "--to", "start").out
    shown = as_alice("group", "delete", "seen", "--topic", "seen")
    assert shown == (1, "", f"barnabas group delete: {refused('DELETE', 'group')}\n")


def test_dry_run_with_the_right_prints_what_would_change(as_alice: AsAlice, everything: Command) -> None:
    allow = ("--allow-principal", "User:alice", "--operation", "alter", "--cluster")
    assert everything("acl", "add", *allow).status == 0
    shown = as_alice("acl", "add", "--allow-principal", "User:bob", "--topic", "t", "--dry-run")
    assert shown == (0, "would add ALLOW User:bob ALL on topic/t\n", "")
    assert as_alice("user", "add", "bob", "--dry-run") == (0, "would add bob (SCRAM-SHA-512)\n", "")
    assert everything("acl", "remove", *allow).status == 0


def test_user_is_named_only_if_it_logs_in_by_its_name() -> None:
    login = {"security_protocol": "SASL_SSL", "sasl_plain_username": "a b"}
    assert "--allow-principal 'User:a b' --operation READ --group 'c d' --group e`" in needs(
        login, "READ", "group", ["c d", "e"]
    )
    by_certificate = {"security_protocol": "SSL", "sasl_plain_username": None}
    assert "--allow-principal User:NAME --operation ALTER --cluster`" in needs(by_certificate, "ALTER", "cluster")
