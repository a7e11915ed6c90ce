from __future__ import annotations

import hashlib
from random import Random

from controller.commands.scram_credentials import alter_user_scram_credentials
from controller.image import MetadataImage
from controller.image_builder import apply_records
from controller.image_delta import difference
from controller.scram import DECOY_KEY, SCRAM_MECHANISMS, credential_from
from protocol.errors import ErrorCode
from protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest

EMPTY = MetadataImage(cluster_id="c")
RANDOM = Random(1)
SALTED = hashlib.pbkdf2_hmac("sha256", b"password", b"salt", 4096)

Deletion = AlterUserScramCredentialsRequest.Deletion
Upsertion = AlterUserScramCredentialsRequest.Upsertion


def upsertion(name: str, mechanism: int = 1, iterations: int = 4096) -> Upsertion:
    return Upsertion(name=name, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=SALTED)


def altered(
    image: MetadataImage, *changes: Deletion | Upsertion
) -> tuple[MetadataImage, dict[str, tuple[int, str | None]]]:
    """Return the image after the changes, and error code and message by user."""
    request = AlterUserScramCredentialsRequest(
        deletions=[change for change in changes if isinstance(change, Deletion)],
        upsertions=[change for change in changes if isinstance(change, Upsertion)],
    )
    result = alter_user_scram_credentials(image, request, RANDOM)
    errors = {one.user: (one.error_code, one.error_message) for one in result.response.results}
    return apply_records(image, result.records, offset=image.offset + len(result.records), epoch=1), errors


def test_credential_is_stored_without_the_salted_password() -> None:
    image, errors = altered(EMPTY, upsertion("alice"))
    assert errors == {"alice": (ErrorCode.NONE, None)}
    stored = image.scram_credentials["alice", 1]
    assert stored == credential_from(SCRAM_MECHANISMS[0], b"salt", SALTED, 4096)
    assert SALTED not in stored


def test_credential_is_replaced_and_removed() -> None:
    image, _ = altered(EMPTY, upsertion("alice"), upsertion("bob", 2))
    image, _ = altered(image, upsertion("alice", iterations=5000))
    assert image.scram_credentials["alice", 1].iterations == 5000
    after, errors = altered(image, Deletion(name="alice", mechanism=1))
    assert errors == {"alice": (ErrorCode.NONE, None)}
    assert after.scram_credentials.keys() == {("bob", 2), DECOY_KEY}
    assert apply_records(image, list(difference(image, after)), offset=99, epoch=1).scram_credentials == (
        after.scram_credentials
    )


def test_invalid_changes_are_refused_and_the_others_made() -> None:
    image, errors = altered(
        EMPTY,
        Deletion(name="nobody", mechanism=1),
        upsertion(""),
        upsertion("few", iterations=4095),
        upsertion("many", iterations=16385),
        upsertion("unknown", mechanism=3),
        upsertion("twice"),
        upsertion("twice", 2),
        upsertion("alice"),
    )
    assert image.scram_credentials.keys() == {("alice", 1), DECOY_KEY}
    assert errors == {
        "alice": (ErrorCode.NONE, None),
        "nobody": (ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"),
        "": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        "few": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        "many": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
        "unknown": (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        "twice": (ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"),
    }


def test_first_change_that_is_made_stores_a_random_secret_of_decoys_that_no_change_touches() -> None:
    image, _ = altered(EMPTY, upsertion("few", iterations=4095))
    assert not image.scram_credentials
    image, _ = altered(EMPTY, upsertion("alice"))
    other, _ = altered(EMPTY, upsertion("alice"))
    secret = image.scram_credentials[DECOY_KEY]
    assert secret.server_key != other.scram_credentials[DECOY_KEY].server_key
    assert len(secret.server_key) == 32
    image, _ = altered(image, upsertion("alice", iterations=5000), upsertion("aaron"))
    image, errors = altered(image, Deletion(name="alice", mechanism=1), Deletion(name="aaron", mechanism=1))
    image, errors = altered(image, Deletion(name="", mechanism=1))
    assert errors[""][0] == ErrorCode.UNACCEPTABLE_CREDENTIAL
    assert image.scram_credentials == {DECOY_KEY: secret}


def test_metadata_without_a_secret_of_decoys_gets_one_with_the_next_change() -> None:
    image, _ = altered(EMPTY, upsertion("alice"))
    former = MetadataImage(cluster_id="c", scram_credentials={("alice", 1): image.scram_credentials["alice", 1]})
    after, _ = altered(former, upsertion("alice", iterations=5000))
    assert DECOY_KEY in after.scram_credentials


def test_user_in_three_changes_is_refused_and_keeps_its_credential() -> None:
    image, _ = altered(EMPTY, upsertion("alice"))
    changes = (
        Deletion(name="alice", mechanism=1),
        upsertion("alice", iterations=5000),
        upsertion("alice", iterations=6000),
    )
    after, errors = altered(image, *changes)
    assert errors["alice"][0] == ErrorCode.DUPLICATE_RESOURCE
    assert after.scram_credentials == image.scram_credentials
