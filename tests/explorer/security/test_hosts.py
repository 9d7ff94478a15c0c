"""Which names a server answers to, and which pages are its own."""

from __future__ import annotations

import pytest

from engine.errors import RequestError
from explorer.security.hosts import hosts_of, is_address, origin_of, place_of, proxy_place

HERE = hosts_of("127.0.0.1")
ALL = hosts_of("0.0.0.0")
BEHIND = hosts_of("127.0.0.1", [("canopy.example", None), ("other.example", 8443)])


@pytest.mark.parametrize(("text", "place"), [
    ("localhost", ("localhost", None)), ("LocalHost.:7860", ("localhost", 7860)), ("[::1]:80", ("::1", 80)),
    ("[::1]", ("::1", None)), ("127.0.0.1:1", ("127.0.0.1", 1)), ("", None), (":80", None), ("[::1", None),
    ("::1", None), ("a b", None), ("a/b", None), ("user@host", None), ("host:99999", None), ("host:", None),
    ("host:8x", None), ("ho\u0455t", None), ("[]:80", None), ("a" * 300, None), ("host\n", None)])
def test_a_host_in_its_parts(text: str, place: object) -> None:
    assert place_of(text) == place


@pytest.mark.parametrize(("text", "place"), [
    ("http://a", ("a", 80)), ("https://A:8443", ("a", 8443)), ("http://[::1]:7860", ("::1", 7860)), ("null", None),
    ("", None), ("file://", None), ("http://", None), ("http://a/b", None), ("ftp://a", None), ("http://[::1", None),
    ("http://u@a", None), ("chrome-extension://abc", None)])
def test_an_origin_in_its_parts(text: str, place: object) -> None:
    assert origin_of(text) == place


@pytest.mark.parametrize("host", ["127.0.0.1:7860", "localhost:7860", "[::1]:7860", "LOCALHOST", "localhost."])
def test_this_machine_answers_to_its_own_names(host: str) -> None:
    assert HERE.answers_to(host)


@pytest.mark.parametrize("host", [
    "evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "192.168.1.5:7860", "evil-localhost", "",
    "127.0.0.1@evil.example", "2130706433", "0.0.0.0:7860", "[::]:7860", "127.1"])
def test_it_answers_to_no_other(host: str) -> None:
    assert not HERE.answers_to(host)


def test_a_server_for_all_answers_to_plain_addresses_and_to_no_strange_name() -> None:
    assert ALL.answers_to("192.168.1.5:7860") and ALL.answers_to("[fd00::2]:80") and ALL.answers_to("localhost:1")
    assert not ALL.answers_to("evil.example") and not ALL.answers_to("1.2.3.4.evil.example")
    assert hosts_of("192.168.1.5").answers_to("192.168.1.5:7860")
    assert not hosts_of("192.168.1.5").answers_to("192.168.1.6:7860")
    assert is_address("::1") and not is_address("localhost") and not is_address("1.2.3")


@pytest.mark.parametrize(("origin", "host", "own"), [
    ("http://127.0.0.1:7860", "127.0.0.1:7860", True), ("http://localhost", "localhost", True),
    ("http://localhost:80", "localhost", True), ("http://[::1]:7860", "[::1]:7860", True),
    ("http://127.0.0.1:7861", "127.0.0.1:7860", False), ("http://localhost:7860", "127.0.0.1:7860", False),
    ("null", "127.0.0.1:7860", False), ("http://evil.example", "127.0.0.1:7860", False),
    ("http://evil.example:7860", "[::1]:7860", False), ("http://127.0.0.1:7860.evil.example", "127.0.0.1:7860", False)])
def test_only_its_own_pages_are_its_own(origin: str, host: str, own: bool) -> None:
    assert HERE.is_own(origin, host) is own


def test_a_proxy_may_pass_on_what_its_name_is_asked() -> None:
    assert BEHIND.answers_to("canopy.example") and BEHIND.answers_to("canopy.example:443")
    assert BEHIND.answers_to("other.example:8443") and not BEHIND.answers_to("other.example:1")
    assert BEHIND.is_own("https://canopy.example", "127.0.0.1:7860")  # a proxy that names the server, not itself
    assert BEHIND.is_own("https://other.example:8443", "127.0.0.1:7860")
    assert not BEHIND.is_own("https://canopy.example:9", "127.0.0.1:7860")
    assert not BEHIND.is_own("https://evil.example", "canopy.example")
    assert not HERE.answers_to("canopy.example")


def test_what_is_no_host_cannot_be_allowed() -> None:
    assert proxy_place("Canopy.Example:8443") == ("canopy.example", 8443)
    for text in ("", "https://canopy.example", "*", "a b"):
        with pytest.raises(RequestError, match="no host"):
            proxy_place(text)
