"""Error messages are one line, in plain words."""

import re

import pytest

from error_messages import messages, page


@pytest.fixture(scope="module")
def found():
    return list(messages())


def test_the_page_has_them_all(found):
    text = page()
    assert len(found) > 300
    assert all(f"- {message.text}" in text for message in found)


@pytest.mark.parametrize(
    ("what", "pattern"),
    [
        ("a line break", r"\n"),
        (
            "a pronoun for nobody in particular",
            r"(?i)\b(nobody|somebody|whoever|everybody|anybody)\b",
        ),
        ("an apology or an exclamation", r"(?i)sorry|oops|!$"),
        (
            "a trailing full stop",
            r"(?<!non-zero number)(?<![.])\.$",
        ),  # scikit-learn's checks want that one
    ],
)
def test_no_message_has(found, what, pattern):
    bad = [f"{m.where}: {m.text}" for m in found if re.search(pattern, m.text)]
    assert not bad, f"{what}:\n" + "\n".join(bad)


def test_messages_are_short(found):
    bad = [f"{m.where}: {m.text}" for m in found if len(m.text) > 300]
    assert not bad, "\n".join(bad)
