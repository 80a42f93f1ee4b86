"""Error messages are one line, in plain words."""

import re

import pytest

from error_messages import messages, page

ALL = list(messages())


def test_the_page_has_them_all():
    text = page()
    assert len(ALL) > 300
    assert all(f"- {message.text}" in text for message in ALL)


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
def test_no_message_has(what, pattern):
    found = [f"{m.where}: {m.text}" for m in ALL if re.search(pattern, m.text)]
    assert not found, f"{what}:\n" + "\n".join(found)


def test_messages_are_short():
    found = [f"{m.where}: {m.text}" for m in ALL if len(m.text) > 300]
    assert not found, "\n".join(found)
