from protocol.errors import ErrorCode, KafkaError


def test_transient_errors_are_retriable() -> None:
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER.retriable
    assert not ErrorCode.MESSAGE_TOO_LARGE.retriable
    assert not ErrorCode.NONE.retriable


def test_error_text_has_the_code_and_the_message() -> None:
    assert str(KafkaError(ErrorCode.INVALID_CONFIG, "retention.ms=x")) == "INVALID_CONFIG: retention.ms=x"
    assert str(KafkaError(ErrorCode.INVALID_CONFIG)) == "INVALID_CONFIG"
    assert KafkaError(ErrorCode.INVALID_CONFIG).message == ""


def test_long_error_message_is_truncated_to_fit_a_response() -> None:
    assert len(KafkaError(ErrorCode.INVALID_CONFIG, "x" * 100_000).message) == 4096 + len("...")


def test_error_code_of_a_newer_version_is_an_unknown_server_error() -> None:
    assert ErrorCode(9999) is ErrorCode.UNKNOWN_SERVER_ERROR
