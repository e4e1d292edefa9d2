import socket

import pytest

from while_pipeline.errors import ProjectError
from while_pipeline.serve.listen import KEY_VARIABLE, is_loopback, key_for, listening, url_of


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "localhost"])
def test_a_loopback_address_needs_no_key(host: str) -> None:
    assert is_loopback(host)
    assert key_for(host, {}) is None
    assert key_for(host, {KEY_VARIABLE: ""}) is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.7", "agent.example", "localhost.example", ""])
def test_any_other_address_does(host: str) -> None:
    with pytest.raises(ProjectError, match=KEY_VARIABLE):
        key_for(host, {})
    assert key_for(host, {KEY_VARIABLE: "sk-1"}) == "sk-1"


def test_a_key_holds_on_loopback_too() -> None:
    assert key_for("127.0.0.1", {KEY_VARIABLE: "sk-1"}) == "sk-1"


@pytest.mark.parametrize("key", ["two words", "line\n", "schlüssel"])
def test_a_key_that_no_header_carries_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(ProjectError, match="ASCII") as refused:
        key_for("127.0.0.1", {KEY_VARIABLE: key})
    assert key not in str(refused.value)


def test_port_0_is_a_free_one_and_a_taken_one_is_an_error() -> None:
    with listening("127.0.0.1", 0) as first:
        host, port = first.getsockname()
        assert url_of(first) == f"http://127.0.0.1:{port}/v1"
        with pytest.raises(OSError, match="in use"):
            listening(host, port)


def test_an_ipv6_address_is_written_in_brackets() -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    try:
        listener = listening("::1", 0)
    except OSError:
        pytest.skip("no IPv6 loopback here")
    with listener:
        assert url_of(listener) == f"http://[::1]:{listener.getsockname()[1]}/v1"
