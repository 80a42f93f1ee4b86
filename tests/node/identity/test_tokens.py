import pytest

from ddol.node.identity.tokens import check_token, new_token
from ddol.streams.errors import DataError


def test_tokens_of_several_clients(tmp_path):
    file = tmp_path / "token"
    tokens = {name: new_token(file, name) for name in ("shop", "lab")}
    assert {check_token(file, token) for token in tokens.values()} == {"shop", "lab"}
    assert check_token(file, "") is None
    assert check_token(file, file.read_text().split()[1]) is None, "a digest is no token"
    assert not any(token in file.read_text() for token in tokens.values())
    with pytest.raises(DataError, match="already"):
        new_token(file, "shop")


def test_a_token_in_plain_is_one_too(tmp_path):
    file = tmp_path / "token"
    file.write_text("a-token-by-hand-1234\n")
    file.chmod(0o600)
    assert check_token(file, "a-token-by-hand-1234") == "plain"
    assert check_token(file, "a-token-by-hand-123") is None


@pytest.mark.parametrize("text", ("", "short\n", "a b c\n"))
def test_a_file_that_lets_anybody_in_is_refused(tmp_path, text):
    file = tmp_path / "token"
    file.write_text(text)
    file.chmod(0o600)
    with pytest.raises(DataError, match="ddol network token"):
        check_token(file, "")


def test_a_file_that_others_can_read_is_refused(tmp_path):
    file = tmp_path / "token"
    new_token(file, "shop")
    file.chmod(0o644)
    with pytest.raises(DataError, match="chmod 600"):
        check_token(file, "x")
