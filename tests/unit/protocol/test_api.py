from __future__ import annotations

import pytest

from protocol.api import APIS, FEATURES, ApiKey, request_class, response_class
from tests.declared import declared_messages


@pytest.mark.parametrize("key", ApiKey)
def test_the_messages_of_an_api_are_declared_together_or_not_at_all(key: ApiKey) -> None:
    names = {message.__name__ for message in declared_messages()}
    name = APIS[key].name
    if f"{name}Request" in names:
        assert request_class(key).__name__ == f"{name}Request"
        assert response_class(key).__name__ == f"{name}Response"
        assert request_class(key).API_KEY == response_class(key).API_KEY == key
    else:
        assert f"{name}Response" not in names
        with pytest.raises(LookupError, match=f"{name} is not declared"):
            request_class(key)


def test_api_has_versions_and_header_formats() -> None:
    fetch = APIS[ApiKey.FETCH]
    assert [version in fetch.versions for version in (3, 4, 18, 19)] == [False, True, True, False]
    assert [fetch.is_flexible(version) for version in (11, 12)] == [False, True]
    assert not APIS[ApiKey.OFFSET_DELETE].is_flexible(0)


def test_a_version_that_kafka_calls_unstable_is_not_offered() -> None:
    assert 6 not in APIS[ApiKey.INIT_PRODUCER_ID].versions
    assert request_class(ApiKey.INIT_PRODUCER_ID).VERSIONS == (0, 6)


def test_a_new_cluster_starts_at_levels_that_are_supported() -> None:
    for feature in FEATURES.values():
        assert feature.min_level <= feature.default_level <= feature.max_level
