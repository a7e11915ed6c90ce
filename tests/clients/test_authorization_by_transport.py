"""Every API in every version, from clients of every security protocol and mechanism, answers as Apache Kafka does."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import closing

import pytest

from broker.routes import ROUTES
from protocol.api import APIS, ApiKey
from tests.authorization.matrix import GOLDEN, Outcomes, run
from tests.authorization.transports import GuardedBroker, transports
from tests.proofs import count
from tests.unit.broker.authorization.test_matrix import DIFFERENT

ROUNDS = int(os.environ.get("BARNABAS_TEST_MATRIX_ROUNDS", "1"))
"""In as many rounds as there are transports, each client of the matrix uses each of them."""

BEFORE_AUTHENTICATION = {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE}
"""SaslAuthenticate too, but only after a handshake."""


@pytest.fixture(scope="module", params=range(ROUNDS))
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedBroker]:
    shift: int = request.param
    with GuardedBroker(tmp_path_factory.mktemp("guarded") / "broker", transports(shift)) as running:
        yield running


def test_each_client_gets_what_it_gets_from_kafka(broker: GuardedBroker) -> None:
    kafkas: Outcomes = json.loads(GOLDEN.read_text())
    requested = 0

    def send(*of: object) -> object:
        nonlocal requested
        requested += 1
        return broker.send(*of)  # type: ignore[arg-type]

    ours = run(send, broker.prepare())
    count("requests of the authorization matrix by transports", requested)
    assert {name for name in ours if ours[name] != kafkas[name]} == DIFFERENT


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_other_requests_before_authentication_close_the_connection(broker: GuardedBroker, protocol: str) -> None:
    answered = set()
    for key in ROUTES:
        for listener_type in APIS[key].listeners:
            for version in APIS[key].versions:
                with closing(broker.stranger(listener_type, protocol)) as connection:
                    if connection.answers(key, version):
                        answered.add(key)
    assert answered == BEFORE_AUTHENTICATION
