"""The route table names each handler once, with what its module has."""

from pathlib import PurePath

import pytest

from broker.routes import CONTROLLER, ROUTES, Route, served_apis
from protocol.api import APIS, ApiKey
from tests.repo.tree import modules

HANDLERS = [PurePath(path).stem for path in modules("broker/handlers") if not path.endswith("__init__.py")]


def test_each_handler_has_one_place_in_the_table() -> None:
    named = [name for route in ROUTES.values() for name in (route.handler, route.on_controller) if name]
    assert sorted(named) == sorted(HANDLERS)


def test_only_declared_apis_are_served_and_in_the_order_of_their_keys() -> None:
    assert list(ROUTES) == [key for key in sorted(APIS) if key in ROUTES]
    for listener_type in ("broker", CONTROLLER):
        assert all(listener_type in api.listeners for api in served_apis(listener_type).values())
    assert served_apis("broker").keys() | served_apis(CONTROLLER).keys() == ROUTES.keys()


@pytest.mark.parametrize(("key", "route"), ROUTES.items(), ids=lambda value: getattr(value, "name", None))
def test_the_row_says_what_the_module_has(key: ApiKey, route: Route) -> None:
    assert route.handler == APIS[key].module
    module = route.module("broker")
    assert callable(module.handle)
    assert hasattr(module, "handle_frame") == route.fast_path
    assert hasattr(module, "own_part") == route.splits
    assert not route.splits or route.forwarded
    assert not route.forwarded or "controller" in APIS[key].listeners


def test_fetch_has_another_handler_on_a_controller_listener() -> None:
    route = ROUTES[ApiKey.FETCH]
    assert route.module(CONTROLLER).__name__ == "broker.handlers.metadata_fetch"
    assert route.module("broker").__name__ == "broker.handlers.fetch"
