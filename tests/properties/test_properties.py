"""Any text in a key or value survives writing and reading a properties file."""

from hypothesis import given
from hypothesis import strategies as st

from storage.properties import format_properties, parse_properties

texts = st.text(st.characters(exclude_categories=["Cs"]))


@given(st.dictionaries(texts, texts))
def test_properties_survive_a_round_trip(values: dict[str, str]) -> None:
    assert {key: value for key, (value, _) in parse_properties(format_properties(values)).items()} == values
