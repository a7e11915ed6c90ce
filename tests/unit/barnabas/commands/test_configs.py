from __future__ import annotations

import argparse

import pytest

from barnabas.commands._configs import resource


@pytest.mark.parametrize("text", ["topic/t", "broker/1", "brokers", "group/a/b", "client-metrics/m", "broker-logger/1"])
def test_valid_resource_names_are_parsed(text: str) -> None:
    assert resource(text) == text


@pytest.mark.parametrize("text", ["", "topic", "topic/", "brokers/1", "broker/one", "user/u"])
def test_invalid_resource_names_are_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=r"write topic/NAME|named by its id"):
        resource(text)
