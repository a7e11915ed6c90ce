from docs.planted_bugs import GENERATED, GENERATED_MUTANTS, PAGE, TABLES, tables


def test_the_tables_of_planted_bugs_are_up_to_date() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == GENERATED.brought_up_to_date(page), "run python -m docs.planted_bugs"
    assert page == GENERATED_MUTANTS.brought_up_to_date(page), "run python -m docs.planted_bugs"


def test_bug_is_listed_with_its_description_and_invariant() -> None:
    assert (
        "| `ignores_producer_sequences` | The sequences of producers are not checked. | an idempotent producer's record"
        in tables()
    )


def test_every_bug_has_a_description_and_is_planted_once() -> None:
    bugs = [bug for _, _, planted in TABLES for bug in planted]
    assert not [bug.name for bug in bugs if not bug.mistake.endswith(".")]
    for title, _, planted in TABLES:
        assert len({bug.plant for bug in planted}) == len(planted), title
