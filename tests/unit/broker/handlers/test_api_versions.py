from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from broker.error_responses import unsupported_api_versions
from broker.handlers import api_versions
from broker.handlers.api_versions import handle
from broker.network.connection import Connection, RequestContext
from broker.routes import served_apis
from controller.image import MetadataImage, ResourceType
from controller.image_builder import apply_records
from protocol.api import APIS, ApiKey
from protocol.errors import ErrorCode
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.records.metadata import ConfigRecord, FeatureLevelRecord

TELEMETRY = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}
IMAGE = MetadataImage(cluster_id="c", offset=41, features={"metadata.version": 30, "group.version": 0})


def query(
    version: int,
    name: str = "me",
    software: str = "1.0",
    listener_type: str = "broker",
    kraft_version: int = 0,
    connection: Connection | None = None,
    image: MetadataImage = IMAGE,
) -> ApiVersionsResponse:
    server: Any = SimpleNamespace(
        image=image,
        dispatcher=SimpleNamespace(apis=served_apis(listener_type)),
        raft=SimpleNamespace(kraft_version=kraft_version),
    )
    context = RequestContext(ApiKey.API_VERSIONS, version, 1, None, 1, "PLAINTEXT", "127.0.0.1", connection=connection)
    return handle(server, context, ApiVersionsRequest(client_software_name=name, client_software_version=software))


def listed(response: ApiVersionsResponse) -> dict[int, tuple[int, int]]:
    return {key.api_key: (key.min_version, key.max_version) for key in response.api_keys}


def test_every_served_api_is_listed_with_kafkas_versions() -> None:
    found = listed(query(4))
    assert found.keys() == served_apis("broker").keys() - TELEMETRY
    assert found[ApiKey.FETCH] == (4, 18)


def test_telemetry_is_listed_while_a_subscription_exists() -> None:
    record = ConfigRecord(resource_type=ResourceType.CLIENT_METRICS, resource_name="all", name="metrics", value="*")
    image = apply_records(IMAGE, [record], offset=42, epoch=1)
    assert listed(query(4, image=image)).keys() == served_apis("broker").keys()
    assert not listed(query(4)).keys() & TELEMETRY


def test_configs_are_scanned_once_until_they_change() -> None:
    class ScanCountingDict(dict[tuple[int, str], dict[str, str]]):
        searches = 0

        def __iter__(self) -> Iterator[tuple[int, str]]:
            self.searches += 1
            return super().__iter__()

    configs = ScanCountingDict({(ResourceType.TOPIC, "t"): {"retention.ms": "1"}})
    image = MetadataImage(cluster_id="c", offset=41, configs=configs)
    later = apply_records(image, [FeatureLevelRecord(name="metadata.version", feature_level=30)], offset=42, epoch=1)
    for one in (image, image, later):
        assert not listed(query(4, image=one)).keys() & TELEMETRY
    assert configs.searches == 1


def test_produce_is_listed_from_version_0_so_that_librdkafka_compresses() -> None:
    assert listed(query(0))[ApiKey.PRODUCE] == (0, 13)


def test_controller_does_not_list_broker_apis() -> None:
    assert ApiKey.PRODUCE not in listed(query(4, listener_type="controller"))


def test_finalized_features_have_the_epoch_of_the_metadata() -> None:
    response = query(4)
    assert response.finalized_features_epoch == 41
    found = [(f.name, f.min_version_level, f.max_version_level) for f in response.finalized_features]
    assert found == [("metadata.version", 30, 30)]  # a level of 0 is not finalized


def test_kraft_version_is_listed_among_finalized_features() -> None:
    found = {feature.name: feature.max_version_level for feature in query(4, kraft_version=1).finalized_features}
    assert found == {"metadata.version": 30, "kraft.version": 1}


def test_features_from_level_0_are_left_out_before_version_4() -> None:
    assert [feature.name for feature in query(3).supported_features] == ["metadata.version"]
    assert "transaction.version" in {feature.name for feature in query(4).supported_features}


@pytest.mark.parametrize("bad", ["", "-x", "x-", "a b", "ü", "a/b", "a\n"])
@pytest.mark.parametrize("which", ["name", "software"])
def test_invalid_client_software_names_are_refused_from_version_3(bad: str, which: str) -> None:
    assert query(3, **{which: bad}).error_code == ErrorCode.INVALID_REQUEST  # type: ignore[arg-type]  # keywords of several types
    assert query(2, **{which: bad}).error_code == ErrorCode.NONE  # type: ignore[arg-type]  # keywords of several types


@pytest.mark.parametrize("good", ["a", "apache-kafka-java", "4.3.1", "librdkafka"])
def test_valid_client_software_names_are_accepted(good: str) -> None:
    assert query(4, name=good).error_code == ErrorCode.NONE


@pytest.mark.parametrize("version", range(5))
def test_response_encodes_in_every_version(version: int) -> None:
    assert query(version).encode(version)


def test_unsupported_version_gets_a_version_0_response_with_supported_ranges() -> None:
    response: Any = unsupported_api_versions()
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    api = APIS[ApiKey.API_VERSIONS]
    assert listed(response) == {ApiKey.API_VERSIONS: (api.min_version, api.max_version)}
    assert response.encode(0)


@pytest.mark.parametrize(
    ("version", "name", "known"),
    [(2, "me", ("unknown", "unknown")), (3, "me", ("me", "1.0")), (3, "m" * 1000, ("m" * 64, "1.0"))],
)
def test_connection_stores_truncated_client_software_name_and_version(
    version: int, name: str, known: tuple[str, str]
) -> None:
    connection = Connection(1, "PLAINTEXT", "127.0.0.1")
    query(version, name=name, connection=connection)
    assert connection.client_software == known


def test_connections_share_names_of_which_a_limited_number_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_versions, "_shared_texts", {})

    def software(name: str) -> tuple[str, str]:
        connection = Connection(1, "PLAINTEXT", "127.0.0.1")
        query(3, name=name, connection=connection)
        return connection.client_software

    first, second = (software("".join(("app-", "x" * 40))) for _ in range(2))
    assert first[0] is second[0]
    assert first[1] is second[1]
    for number in range(1500):
        software(f"name-{number}")
    assert len(api_versions._shared_texts) <= 1000
    assert "name-1499" in api_versions._shared_texts
