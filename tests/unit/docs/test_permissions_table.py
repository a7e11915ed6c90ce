from broker.routes import ROUTES
from docs.permissions_table import GENERATED, PAGE, table
from protocol.api import APIS


def test_the_security_page_is_up_to_date() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == GENERATED.brought_up_to_date(page), "run python -m docs.permissions_table"


def test_each_api_with_requirements_is_listed() -> None:
    listed = {row.split("|")[1].strip() for row in table().splitlines()[2:]}
    assert listed == {APIS[key].name for key, route in ROUTES.items() if route.requires or route.requires_on_controller}


def test_a_row_names_operations_resources_and_alternatives() -> None:
    assert "| WriteTxnMarkers | CLUSTER_ACTION on the cluster (or ALTER on the cluster) | |\n" in table()
    assert (
        "| Fetch | READ on topic, CLUSTER_ACTION on the cluster; on a controller: CLUSTER_ACTION on the cluster | |\n"
        in table()
    )
    assert "| DescribeCluster | on a controller: ALTER on the cluster | |\n" in table()
    assert "| CreateAcls | ALTER on the cluster | controller |\n" in table()
