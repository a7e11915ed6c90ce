from controller.configs import BROKER_CONFIGS, TOPIC_CONFIGS
from controller.configs.group import GROUP_CONFIGS
from docs.config_table import REFERENCE, WITHOUT_EFFECT, reference, without_effect


def test_both_pages_are_up_to_date() -> None:
    for generated in (REFERENCE, WITHOUT_EFFECT):
        page = generated.page.read_text(encoding="utf-8")
        assert page == generated.brought_up_to_date(page), "run python -m docs.config_table"


def test_every_described_configuration_has_a_row() -> None:
    rows = [row.split("`")[1] for row in reference().splitlines() if row.startswith("| `")]
    shown = [name for name, one in (*TOPIC_CONFIGS.items(), *BROKER_CONFIGS.items()) if not one.internal]
    assert sorted(set(shown)) == sorted(set(rows) - GROUP_CONFIGS.keys() - {"interval.ms", "match", "metrics"})


def test_only_configurations_without_effect_are_listed_by_reason() -> None:
    listed = without_effect()
    for name, one in BROKER_CONFIGS.items():
        if not one.internal and name not in TOPIC_CONFIGS:
            assert (f"`{name}`" in listed) == (not one.effective)


def test_cell_separator_is_escaped() -> None:
    for row in reference().splitlines():
        if row.startswith("| `"):
            assert len(row.replace("\\|", "").split("|")) in (7, 8), row
