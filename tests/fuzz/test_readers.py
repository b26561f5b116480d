"""Kept inputs of the fuzzing of readers, and some mutations: read or refused, no crash."""

import random

import pytest

from tests.fuzz.readers import CORPUS, TARGETS, attempt

MUTATIONS = 40


def corpus(name: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((CORPUS / name).iterdir())]


def mutated(data: bytes, chance: random.Random) -> bytes:
    """Return bytes with a few pieces changed, cut out, doubled or cut off."""
    mutated_data = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(mutated_data) + 1)
        piece = bytes(mutated_data[at : at + chance.randint(1, 16)])
        match chance.randrange(5):
            case 0:
                mutated_data[at : at + 1] = chance.randbytes(1)
            case 1:
                mutated_data[at : at + len(piece)] = b""
            case 2:
                mutated_data[at:at] = piece * chance.randint(1, 3)
            case 3:
                mutated_data[at : at + len(piece)] = chance.choice(
                    [b"-1", b"1e400", b"null", b"\0", b"\xff", b"9" * 30, b"{}", b"[]", b'""']
                )
            case _:
                del mutated_data[at:]
    return bytes(mutated_data)


@pytest.mark.parametrize("name", TARGETS)
def test_kept_files_are_read_or_refused(name: str) -> None:
    read = [attempt(name, data) for data in corpus(name)]
    assert any(read), "one at least is as it should be, or nothing is tried"


@pytest.mark.parametrize("name", TARGETS)
def test_mutations_of_what_was_kept_are_read_or_refused(name: str) -> None:
    chance = random.Random(name)
    inputs = corpus(name)
    refused = 0
    for _ in range(MUTATIONS):
        refused += not attempt(name, mutated(chance.choice(inputs), chance))
    assert refused, "a mutation that is never noticed is none"
