import pytest
from kafka import errors

from barnabas.commands._output import explain, explain_code, plain, print_table


def test_columns_are_as_wide_as_their_widest_cell(capsys):
    print_table(("name", "n"), [("a", 1), ("longer", 22)])
    assert capsys.readouterr().out == "NAME    N\na       1\nlonger  22\n"


def test_a_table_without_rows_is_its_header(capsys):
    print_table(("name", "n"), [])
    assert capsys.readouterr().out == "NAME  N\n"


def test_a_missing_broker_is_answered_with_how_to_start_one():
    said = explain(errors.KafkaTimeoutError("nothing at h:1")) or ""
    assert said.startswith("no answer from a broker (nothing at h:1); is one running there?")
    assert said.endswith("`barnabas serve` starts one")


def test_an_error_of_the_client_is_told_without_its_class():
    assert explain(errors.GroupAuthorizationFailedError("not yours")) == "not yours"


def test_what_is_not_the_client_s_error_is_not_explained_away():
    assert explain(ValueError("a bug")) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[Error 37] InvalidPartitionsError: only 3: no more", "only 3: no more"),
        ("KafkaTimeoutError: late", "late"),
        ("just words", "just words"),
    ],
)
def test_names_of_the_client_s_own_are_left_out(text, said):
    assert plain(text) == said


def test_the_broker_s_own_words_come_before_the_meaning_of_its_code():
    assert explain_code(37, "would be no increase") == "would be no increase"
    assert "does not exist on this broker" in explain_code(3, None)
    assert explain_code(31_000, None) == str(errors.UnknownError.description)
