from docs.metrics_table import GENERATED, PAGE, table


def test_the_page_of_metrics_is_up_to_date() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == GENERATED.brought_up_to_date(page), "run python -m docs.metrics_table"


def test_a_metric_is_listed_with_its_type_and_labels() -> None:
    assert "| `kafka_consumergroup_lag` | gauge | consumergroup, topic, partition |" in table()
