from __future__ import annotations

import hashlib
import re
from base64 import b64encode

import pytest

from broker.security.scram_option import parse_add_scram
from controller.scram import SCRAM_BY_NAME, ScramCredential, credential_from
from protocol.records.metadata import UserScramCredentialRecord

FILES = {"/secret": b"pass,word\r\nsecond line\n", "/empty": b"\n"}


def credential(mechanism: str, password: str, record: UserScramCredentialRecord) -> ScramCredential:
    """Return what a password would be stored as, with the salt and iterations of the record."""
    scram = SCRAM_BY_NAME[mechanism]
    salt = bytes(record.salt)
    salted = hashlib.pbkdf2_hmac(scram.hash_name, password.encode(), salt, record.iterations)
    return credential_from(scram, salt, salted, record.iterations)


@pytest.mark.parametrize(
    ("option", "mechanism", "password", "iterations"),
    [
        ("SCRAM-SHA-256=[name=alice,password=secret]", "SCRAM-SHA-256", "secret", 4096),
        ('SCRAM-SHA-512=[name="alice",iterations=8192,password="s,e=cret]"]', "SCRAM-SHA-512", "s,e=cret]", 8192),
        ("SCRAM-SHA-512=[name=alice,password-file=/secret]", "SCRAM-SHA-512", "pass,word", 4096),
    ],
)
def test_credential_of_a_password(option: str, mechanism: str, password: str, iterations: int) -> None:
    record = parse_add_scram(option, FILES.__getitem__)
    assert (record.name, record.mechanism) == ("alice", SCRAM_BY_NAME[mechanism].number)
    assert record.iterations == iterations
    expected = credential(mechanism, password, record)
    assert (record.stored_key, record.server_key) == (expected.stored_key, expected.server_key)


def test_salts_differ_and_a_salted_password_is_used_as_it_is() -> None:
    first, second = (parse_add_scram("SCRAM-SHA-256=[name=a,password=p]", FILES.__getitem__) for _ in range(2))
    assert first.salt != second.salt
    assert len(first.salt) == 24
    salted = hashlib.pbkdf2_hmac("sha256", b"p", b"salt", 4096)
    option = f"SCRAM-SHA-256=[name=a,salt={b64encode(b'salt').decode()},saltedpassword={b64encode(salted).decode()}]"
    record = parse_add_scram(option, FILES.__getitem__)
    assert record.salt == b"salt"
    plain = parse_add_scram("SCRAM-SHA-256=[name=a,salt=c2FsdA==,password=p]", FILES.__getitem__)
    assert (plain.salt, plain.stored_key) == (record.salt, record.stored_key)
    assert record.stored_key == credential("SCRAM-SHA-256", "p", record).stored_key


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("alice", "write it as SCRAM-SHA-256="),
        ("SCRAM-SHA-256=[name=a,password=hidden]more", "write it as SCRAM-SHA-256="),
        ("SCRAM-SHA-256=[name=a,saltedpassword=hidden,salt=]", "salt is empty"),
        ("SCRAM-SHA-256=[name=a,password=hidden,iterations=\u0664\u0660\u0669\u0666]", "iterations must be from 4096"),
        ("SCRAM-SHA-256=[name=a,password=hidden,iterations=4096.5]", "iterations must be from 4096"),
        ("SCRAM-SHA-256=[name=a,password=hidden,iterations=0000004096]", "iterations must be from 4096"),
        ("PLAIN=[name=a,password=hidden]", "PLAIN is not one of SCRAM-SHA-256, SCRAM-SHA-512"),
        ("SCRAM-SHA-256=[password=hidden]", "name is missing"),
        ("SCRAM-SHA-256=[name=a]", "exactly one of password, password-file and saltedpassword"),
        ("SCRAM-SHA-256=[name=a,password=hidden,saltedpassword=aGlkZGVu]", "exactly one of"),
        ("SCRAM-SHA-256=[name=a,saltedpassword=aGlkZGVu]", "saltedpassword needs its salt"),
        ("SCRAM-SHA-256=[name=a,saltedpassword=hidden,salt=!]", "salt is not base64"),
        ("SCRAM-SHA-256=[name=a,password=hidden,iterations=4095]", "iterations must be from 4096 to 16384"),
        ("SCRAM-SHA-256=[name=a,password=hidden,iterations=16385]", "iterations must be from 4096 to 16384"),
        ("SCRAM-SHA-256=[name=a,password=hidden,word=x]", "the names are name, password"),
        ("SCRAM-SHA-256=[name=a,password=top,hidden=x]", "write a value that has a comma in quotes"),
        ("SCRAM-SHA-256=[name=a,name=b,password=hidden]", "name is given twice"),
        ("SCRAM-SHA-256=[name=a,hidden]", "between the brackets write NAME=VALUE"),
        ("SCRAM-SHA-256=[name=a,password-file=/empty]", "the password is empty"),
    ],
)
def test_invalid_option_is_refused_without_its_secret(option: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as refused:
        parse_add_scram(option, FILES.__getitem__)
    assert "hidden" not in str(refused.value)
