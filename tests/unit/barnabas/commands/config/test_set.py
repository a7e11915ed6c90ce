from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.barnabas.conftest import Command, Shown


def value(barnabas: Callable[..., Shown], of: str, name: str) -> str:
    return barnabas("config", "get", of, name).out.strip()


def test_settings_of_a_topic_are_set_and_lists_changed(barnabas: Command, topic: str) -> None:
    barnabas("topic", "create", topic)
    of = f"topic/{topic}"
    shown = barnabas("config", "set", of, "retention.ms=1", "cleanup.policy+=compact")
    changes = "retention.ms: 604800000 -> 1, cleanup.policy: delete -> delete,compact"
    assert shown == (0, f"altered {of}: {changes}\n", "")
    assert (value(barnabas, of, "retention.ms"), value(barnabas, of, "cleanup.policy")) == ("1", "delete,compact")
    barnabas("config", "set", of, "cleanup.policy-=delete")
    assert value(barnabas, of, "cleanup.policy") == "compact"


def test_the_default_of_all_brokers_and_one_broker(barnabas: Command) -> None:
    for of in ("brokers", "broker/1"):
        assert barnabas("config", "set", of, "message.max.bytes=2000000").status == 0
        assert "message.max.bytes" in barnabas("config", "list", of).out
        assert barnabas("config", "reset", of, "message.max.bytes").status == 0
        assert "message.max.bytes" not in barnabas("config", "list", of).out


def test_a_group_s_settings(barnabas: Command, topic: str) -> None:
    of = f"group/{topic}"
    assert barnabas("config", "set", of, "consumer.session.timeout.ms=50000") == (
        0,
        f"altered {of}: consumer.session.timeout.ms: 45000 -> 50000\n",
        "",
    )
    assert value(barnabas, of, "consumer.session.timeout.ms") == "50000"


def test_a_dry_run_sets_nothing(barnabas: Command, topic: str) -> None:
    barnabas("topic", "create", topic)
    of = f"topic/{topic}"
    shown = barnabas("config", "set", of, "retention.ms=1", "--dry-run")
    assert shown == (0, f"would alter {of}: retention.ms: 604800000 -> 1\n", "")
    assert value(barnabas, of, "retention.ms") != "1"


@pytest.mark.usefixtures("settings_of_brokers")
def test_default_is_printed_as_the_old_value_of_an_unset_setting(barnabas: Command) -> None:
    shown = barnabas("config", "set", "brokers", "log.retention.ms=3600000", "--dry-run")
    assert shown == (0, "would alter brokers: log.retention.ms: 604800000 -> 3600000\n", "")
    shown = barnabas("config", "set", "brokers", "log.cleanup.policy+=compact", "--dry-run")
    assert shown == (0, "would alter brokers: log.cleanup.policy: delete -> delete,compact\n", "")
    barnabas("config", "set", "broker/1", "message.max.bytes=2000000")
    shown = barnabas("config", "set", "brokers", "message.max.bytes=3000000", "--dry-run")
    assert shown.out == "would alter brokers: message.max.bytes: 1048588 -> 3000000\n"


def test_setting_that_cannot_change_names_the_one_that_can(barnabas: Command) -> None:
    shown = barnabas("config", "set", "brokers", "log.retention.hours=10")
    refusal = "Cannot update these configs dynamically: [log.retention.hours]"
    assert (shown.status, shown.out) == (1, "")
    assert shown.err.startswith(f"barnabas config set: brokers: {refusal}")
    assert shown.err.endswith("; log.retention.ms can be set instead of log.retention.hours\n")
    assert "instead" not in barnabas("config", "set", "brokers", "node.id=7").err


def test_unchanged_value_is_not_reported(barnabas: Command, topic: str) -> None:
    barnabas("topic", "create", topic)
    shown = barnabas("config", "set", f"topic/{topic}", "cleanup.policy=delete", "retention.ms=1")
    assert shown == (0, f"altered topic/{topic}: retention.ms: 604800000 -> 1\n", "")
    shown = barnabas("config", "set", f"topic/{topic}", "retention.ms=1")
    assert shown == (0, f"altered topic/{topic}\n", "")


@pytest.mark.parametrize(
    ("change", "status", "complaint"),
    [
        ("retention.ms=soon", 1, "Not a number of type LONG"),
        ("cleanup.polcy+=x", 1, "there is no setting 'cleanup.polcy'; did you mean cleanup.policy?"),
        ("retention.ms", 2, "write SETTING=VALUE"),
        ("+=x", 2, "write SETTING=VALUE"),
    ],
)
def test_invalid_setting_is_refused(barnabas: Command, topic: str, change: str, status: int, complaint: str) -> None:
    barnabas("topic", "create", topic)
    shown = barnabas("config", "set", f"topic/{topic}", change)
    assert (shown.status, shown.out) == (status, "")
    assert complaint in shown.err


@pytest.mark.parametrize("of", ["t", "topics/t", "topic/", "brokers/1", "broker/one", "broker"])
def test_invalid_resource_name_is_a_wrong_call(call: Command, of: str) -> None:
    status, _, err = call("config", "set", of, "a=b")
    assert status == 2
    assert of in err


def test_mistyped_setting_gets_a_suggestion(barnabas: Command, topic: str) -> None:
    barnabas("topic", "create", topic)
    for command in (
        ["config", "set", f"topic/{topic}", "retention.mss=1"],
        ["topic", "alter", topic, "-c", "retention.mss=1"],
    ):
        shown = barnabas(*command)
        assert shown.status == 1
        assert shown.err.endswith("; did you mean retention.ms?\n")


def test_unknown_broker_setting_is_set_with_a_warning(barnabas: Command) -> None:
    warning = "broker/1 has no setting log.retntion.ms: it has no effect; did you mean log.retention.ms?"
    for _ in range(2):  # the second time it is in the description
        shown = barnabas("config", "set", "broker/1", "log.retntion.ms=5")
        assert (shown.status, shown.out) == (0, "altered broker/1: log.retntion.ms: - -> 5\n")
        assert shown.err == f"barnabas config set: {warning}\n"
    assert "sensitive" not in barnabas("config", "reset", "broker/1", "log.retntion.ms").out


def test_internal_topic_stays_compacted_without_force(barnabas: Command, transaction_state: str) -> None:
    of = f"topic/{transaction_state}"
    why = "an internal topic with the producer ids and the open transactions of all transactional ids"
    for change, policy in (("cleanup.policy=delete", "delete"), ("cleanup.policy+=delete", "compact,delete")):
        for dry_run in ([], ["--dry-run"]):
            shown = barnabas("config", "set", of, change, *dry_run)
            lost = f"cleanup.policy={policy} loses them; --force sets it"
            assert shown == (1, "", f"barnabas config set: {of}: {why}: {lost}\n")
        shown = barnabas("config", "set", of, change, "--dry-run", "--force")
        assert shown == (0, f"would alter {of}: cleanup.policy: compact -> {policy}\n", "")
    for line in (
        ["config", "reset", of, "cleanup.policy"],
        ["topic", "alter", transaction_state, "-c", "cleanup.policy=delete"],
    ):
        shown = barnabas(*line)
        assert (shown.status, shown.out) == (1, "")
        assert shown.err.endswith(f": {why}: cleanup.policy=delete loses them; --force sets it\n")
        assert barnabas(*line, "--force", "--dry-run").status == 0
    assert value(barnabas, of, "cleanup.policy") == "compact"
    assert barnabas("config", "set", of, "segment.ms=86400000", "--dry-run").status == 0


def test_setting_of_a_listener_is_altered_without_a_warning(barnabas: Command) -> None:
    for name, note in (
        ("listener.name.plaintext.max.connections", "- -> 77"),
        ("listener.name.plaintext.ssl.key.password", "not shown, since it is sensitive"),
    ):
        shown = barnabas("config", "set", "broker/1", f"{name}=77", "--dry-run")
        assert shown == (0, f"would alter broker/1: {name}: {note}\n", "")
        assert barnabas("config", "reset", "broker/1", name).out == f"reset {name}: it was not set\n"


def test_unknown_setting_of_a_listener_has_a_warning_with_the_listener_in_the_suggestion(barnabas: Command) -> None:
    shown = barnabas("config", "set", "broker/1", "listener.name.plaintext.max.conections=77", "--dry-run")
    meant = "did you mean listener.name.plaintext.max.connections?"
    assert shown.status == 0
    assert shown.err.endswith(
        f"broker/1 has no setting listener.name.plaintext.max.conections: it has no effect; {meant}\n"
    )


def test_refused_setting_of_a_listener_has_no_suggestion(barnabas: Command) -> None:
    shown = barnabas("config", "set", "broker/1", "listener.name.plaintext.max.connections=0")
    assert shown == (1, "", "barnabas config set: broker/1: Invalid max.connections 0\n")
    shown = barnabas("config", "set", "broker/1", "log.retntion.ms=5", "message.max.bytes=-1")
    assert shown.status == 1
    assert "did you mean" not in shown.err
