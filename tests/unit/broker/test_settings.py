from __future__ import annotations

import pytest

from broker.network.listeners import ListenerAddress
from broker.settings import (
    DEFAULT_ORIGIN,
    Option,
    Settings,
    SettingsError,
    check_settings,
    read_option,
    read_properties,
)

STOCK = """
# As Apache Kafka's distribution has it.
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,\\
    SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
offsets.topic.replication.factor=1
log.retention.hours=168
"""


def settings(**options: str) -> Settings:
    """Return settings with the given options; `__` in a name stands for a dot."""
    named = {name.replace("__", "."): text for name, text in options.items()}
    return check_settings({name: Option(text, f"-D {name}") for name, text in named.items()})


def test_kafkas_own_properties_file_is_accepted() -> None:
    found = check_settings(read_properties(STOCK, "server.properties"))
    assert found.unknown == {}
    assert found.node_id == 1
    assert found.log_dirs == ("/tmp/kraft-combined-logs",)
    assert found.listeners == (ListenerAddress("PLAINTEXT", "", 9092), ListenerAddress("CONTROLLER", "", 9093))
    assert found.controller_listeners == {"CONTROLLER"}
    assert found["log.retention.hours"] == 168


def test_defaults_are_kafkas() -> None:
    found = settings()
    assert found["num.partitions"] == 1
    assert found["socket.request.max.bytes"] == 104857600
    assert found["auto.create.topics.enable"] is True
    assert found.listeners == (ListenerAddress("PLAINTEXT", "", 9092),)


def test_only_what_was_set_is_explicit() -> None:
    found = settings(num__partitions="3")
    assert found.explicit == {"num.partitions": "3"}
    assert found["num.partitions"] == 3


def test_unknown_names_are_kept_with_their_origin() -> None:
    found = check_settings(read_properties("num.partition=2\nnode.id=1\ngarbage line here\n", "server.properties"))
    assert list(found.unknown.items()) == [
        ("garbage", "server.properties, line 3"),
        ("num.partition", "server.properties, line 1"),
    ]


def test_file_error_names_file_line_key_value_and_valid_values() -> None:
    options = read_properties("node.id=1\nnum.partitions=none\n", "conf/server.properties")
    with pytest.raises(SettingsError) as caught:
        check_settings(options)
    assert str(caught.value) == (
        "conf/server.properties, line 2: Invalid value none for configuration num.partitions: Not a number of type INT"
    )


def test_an_error_in_an_option_names_the_option() -> None:
    key, option = read_option("num.partitions=0")
    with pytest.raises(SettingsError, match=r"^-D num\.partitions: Invalid value 0 .* at least 1$"):
        check_settings({key: option})


@pytest.mark.parametrize("argument", ["num.partitions", "=3", ""])
def test_an_option_is_key_and_value(argument: str) -> None:
    with pytest.raises(SettingsError, match="write it as key=value"):
        read_option(argument)


def test_an_option_may_have_equals_signs_in_its_value() -> None:
    assert read_option("a = b=c") == ("a", Option("b=c", "-D a"))


def test_invalid_properties_file_is_named() -> None:
    with pytest.raises(SettingsError, match=r"server\.properties: line 1"):
        read_properties("a=\\u12", "server.properties")


def test_the_advertised_listeners_are_the_clients_listeners_by_default() -> None:
    found = settings(listeners="PLAINTEXT://localhost:0,CONTROLLER://localhost:0")
    assert found.advertised_listeners == (ListenerAddress("PLAINTEXT", "localhost", 0),)


def test_listeners_may_have_custom_names() -> None:
    found = settings(
        listeners="INSIDE://:9092,OUTSIDE://:9093",
        listener__security__protocol__map="INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
        advertised__listeners="INSIDE://broker:9092,OUTSIDE://example.org:443",
        inter__broker__listener__name="INSIDE",
    )
    assert [endpoint.listener for endpoint in found.advertised_listeners] == ["INSIDE", "OUTSIDE"]


def test_broker_id_is_the_old_name_of_node_id() -> None:
    assert settings(broker__id="7").node_id == 7
    assert settings(broker__id="7", node__id="7").node_id == 7
    with pytest.raises(SettingsError, match=r"broker\.id=7 differs from node\.id=8"):
        settings(broker__id="7", node__id="8")


def test_both_id_names_are_explicit_if_one_is_set() -> None:
    assert settings(node__id="7").explicit == {"node.id": "7", "broker.id": "7"}
    assert settings(broker__id="7").explicit == {"node.id": "7", "broker.id": "7"}
    assert settings().explicit == {}


def test_all_errors_are_reported_together() -> None:
    with pytest.raises(SettingsError) as refused:
        settings(num__partitions="many", log__retention__hours="long")
    first, *lines = str(refused.value).splitlines()
    assert first == "2 invalid settings:"
    assert sorted(line.partition(": Invalid value")[0] for line in lines) == [
        "  -D log.retention.hours",
        "  -D num.partitions",
    ]
    with pytest.raises(SettingsError) as refused:
        settings(listeners="OTHER://:1", barnabas__metrics__listener="nowhere", log__dirs="/a,/a")
    assert len(str(refused.value).splitlines()) == 4


def test_listener_prefix_is_valid_for_existing_settings_only() -> None:
    found = settings(listener__name__x__max__connections="5", listener__name__x__foo="6")
    assert found.unknown.keys() == {"listener.name.x.foo"}


def test_log_dirs_overrides_log_dir() -> None:
    assert settings(log__dir="/a").log_dirs == ("/a",)
    assert settings(log__dir="/a", log__dirs="/b, /c").log_dirs == ("/b", "/c")
    assert settings(log__dirs="/b,/bc").log_dirs == ("/b", "/bc")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"node__id": "-1"}, r"Invalid value -1 for configuration node\.id: Value must be at least 0"),
        (
            {"process__roles": "broker"},
            r"^-D process\.roles: controller\.quorum\.voters is empty, which process\.roles=broker does not allow",
        ),
        (
            {"process__roles": "controller", "controller__quorum__voters": ""},
            r"^-D controller\.quorum\.voters: controller\.quorum\.voters is empty, which process\.roles=controller",
        ),
        (
            {"process__roles": "controller", "controller__quorum__voters": "1@a:1"},
            r"^-D process\.roles: listeners: PLAINTEXT is not in controller\.listener\.names",
        ),
        (
            {"controller__quorum__voters": "1@a:1,2@b:1"},
            r"^-D controller\.quorum\.voters: listeners has to name CONTROLLER://a:1 too",
        ),
        ({"controller__quorum__voters": "2@a:1"}, "has to name this node, as 1@HOST:PORT"),
        ({"listeners": "PLAINTEXT://localhost"}, r"Invalid value of listeners: .*NAME://HOST:PORT"),
        (
            {"listeners": "OTHER://localhost:9093"},
            r"^-D listeners: Invalid value of listeners: .*the listener OTHER has no security protocol",
        ),
        ({"listeners": "CONTROLLER://localhost:9093"}, "has to name a listener that is not in controller"),
        ({"listeners": "PLAINTEXT://0.0.0.0:9092"}, "clients cannot connect to 0.0.0.0:9092"),
        ({"inter__broker__listener__name": "INSIDE"}, "INSIDE is not an advertised listener; these are: PLAINTEXT"),
        (
            {"security__inter__broker__protocol": "SSL"},
            r"security\.inter\.broker\.protocol: SSL is not an advertised listener; these are: PLAINTEXT",
        ),
        (
            {"security__inter__broker__protocol": "PLAINTEXT", "inter__broker__listener__name": "PLAINTEXT"},
            r"inter\.broker\.listener\.name: security\.inter\.broker\.protocol is set too: remove one of them",
        ),
        ({"early__start__listeners": "PLAINTEXT,INSIDE"}, "contains listener INSIDE, but this is not contained in"),
        ({"principal__builder__class": "com.example.Builder"}, "String must be one of: org.*DefaultKafkaPrincipalBuil"),
        ({"ssl__engine__factory__class": "com.example.Factory"}, "String must be one of: org.*DefaultSslEngineFactory"),
        ({"log__dirs": "/a,/a"}, "names a directory twice"),
        ({"log__dirs": "/b/c,/a,/b"}, r"^-D log\.dirs: log\.dirs: /b/c is inside /b; remove one of them"),
        ({"log__dirs": "a/../b/c/,b"}, "a/../b/c/ is inside b"),
        ({"log__dirs": "/a,/b", "cordoned__log__dirs": "/c"}, r"^-D cordoned\.log\.dirs: .* Missing entries : /c"),
        ({"log__retention__hours": "0"}, r"^-D log\.retention\.hours: log\.retention\.ms must be unlimited"),
        (
            {"listener__name__x__max__connections": "many"},
            r"^-D listener\.name\.x\.max\.connections: Invalid value many",
        ),
        ({"log__dirs": ""}, r"Configuration 'log\.dirs' must not be empty"),
        ({"log__dirs": "/a,,/b"}, r"Configuration 'log\.dirs' values must not be empty"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(options: dict[str, str], problem: str) -> None:
    with pytest.raises(SettingsError, match=problem):
        settings(**options)


def test_contradiction_with_default_is_named_with_origin() -> None:
    found = read_properties("process.roles=controller\ncontroller.quorum.voters=1@a:1\n", "server.properties")
    found["listeners"] = Option("PLAINTEXT://localhost:9092", DEFAULT_ORIGIN)
    with pytest.raises(SettingsError, match=r"^server\.properties, line 1: listeners: PLAINTEXT is not in"):
        check_settings(found)


def test_the_one_voter_may_be_this_node() -> None:
    assert settings(controller__quorum__voters="1@localhost:9093").node_id == 1


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "localhost", "[::1]"])
def test_the_control_api_is_served_beside_loopback_listeners(host: str) -> None:
    found = settings(listeners=f"PLAINTEXT://{host}:9092", barnabas__control__listener="127.0.0.1:0")
    assert found["barnabas.control.listener"] == "127.0.0.1:0"


@pytest.mark.parametrize("host", ["", "0.0.0.0", "192.0.2.1", "kafka.example.com", "[::]"])
def test_the_control_api_is_refused_beside_other_listeners(host: str) -> None:
    with pytest.raises(SettingsError) as refused:
        settings(
            listeners=f"PLAINTEXT://127.0.0.1:1,B://{host}:9092",
            barnabas__control__listener="127.0.0.1:0",
            advertised__listeners="PLAINTEXT://127.0.0.1:1",
            listener__security__protocol__map="PLAINTEXT:PLAINTEXT,B:PLAINTEXT",
        )
    assert str(refused.value) == (
        f"-D listeners: B://{host}:9092 can be reached from other machines, and barnabas.control.listener is for "
        "brokers of tests: listen on 127.0.0.1:9092, or leave out barnabas.control.listener"
    )


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("0.0.0.0:1", "=0.0.0.0:1: the control API is for this machine only; listen on 127.0.0.1:PORT"),
        ("nowhere", ": write it as HOST:PORT, with [] around an IPv6 host"),
    ],
)
def test_the_control_api_is_refused_on_other_addresses(address: str, problem: str) -> None:
    with pytest.raises(SettingsError) as refused:
        settings(listeners="PLAINTEXT://127.0.0.1:1", barnabas__control__listener=address)
    assert str(refused.value) == f"-D barnabas.control.listener: barnabas.control.listener{problem}"


def test_the_test_profile_changes_defaults_only() -> None:
    found = settings(barnabas__test__profile="true", offsets__topic__num__partitions="7")
    assert found["group.initial.rebalance.delay.ms"] == 0
    assert found["transaction.state.log.num.partitions"] == 1
    assert found["offsets.topic.num.partitions"] == 7
    assert settings()["group.initial.rebalance.delay.ms"] == 3000
    assert settings(barnabas__test__profile="false")["offsets.topic.num.partitions"] == 50
