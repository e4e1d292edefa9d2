"""What holds for every test. Set-up that one folder alone needs belongs in that folder."""

import ssl
from collections.abc import Iterator
from functools import cache

import pytest


@pytest.fixture(scope="session", autouse=True)
def _certificates_are_read_once() -> Iterator[None]:
    """Each endpoint client reads the certificate store anew, 50 ms a time; here none speaks TLS."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl, "create_default_context", cache(ssl.create_default_context))
        yield


SHARED_DAYS = ("telecom", "resumed")
"""Fixtures that play whole days once."""


def pytest_itemcollected(item: pytest.Item) -> None:
    """Tests that share days played once run in one process, where those are played once."""
    for shared in SHARED_DAYS:
        if shared in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group(shared))
            return
