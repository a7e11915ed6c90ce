"""The route table names each handler once, with what its module has."""

from pathlib import PurePath

import pytest

from broker.routes import CONTROLLER, ROUTES, Route, served_apis
from protocol.api import APIS, ApiKey
from tests.repo.tree import modules

SHARED = {"authorized_operations", "controller_command", "produce_appends", "produce_in_transactions"}
HANDLERS = {PurePath(path).stem for path in modules("broker/handlers") if not path.endswith("__init__.py")}


def test_each_handler_has_a_place_in_the_table() -> None:
    named = {name for route in ROUTES.values() for name in (route.handler, route.on_controller, route.own_part) if name}
    assert {name.partition(":")[0] for name in named} == HANDLERS - SHARED


def test_only_declared_apis_are_served_and_in_the_order_of_their_keys() -> None:
    assert list(ROUTES) == [key for key in sorted(APIS) if key in ROUTES]
    for listener_type in ("broker", CONTROLLER):
        assert all(listener_type in api.listeners for api in served_apis(listener_type).values())
    assert served_apis("broker").keys() | served_apis(CONTROLLER).keys() == ROUTES.keys()


@pytest.mark.parametrize(("key", "route"), ROUTES.items(), ids=lambda value: getattr(value, "name", None))
def test_the_functions_of_a_row_exist(key: ApiKey, route: Route) -> None:
    assert bool(route.handler) != bool(route.command)
    for listener_type in APIS[key].listeners:
        handlers = route.load(listener_type)
        assert callable(handlers.handle)
        assert (handlers.handle_frame is not None) == route.fast_path
        assert (handlers.own_part is not None) == bool(route.own_part)
    assert not route.own_part or route.forwarded
    assert not route.forwarded or "controller" in APIS[key].listeners


def test_fetch_has_another_handler_on_a_controller_listener() -> None:
    route = ROUTES[ApiKey.FETCH]
    assert route.load(CONTROLLER).handle.__module__ == "broker.handlers.raft"
    assert route.load("broker").handle.__module__ == "broker.handlers.fetch"
