"""An address as a person writes it goes in; host, port and driver uri come out; nothing is contacted."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

DEFAULT_PORT = 31337
DEFAULT_URI = f"grpc://127.0.0.1:{DEFAULT_PORT}"
DIALECTS = ("duckdb", "snowflake", "bigquery")
SCHEMES = ("grpc", "grpc+tcp", "grpc+tls")


@dataclass(frozen=True)
class Address:
    """Where a server listens; `uri` is what the Flight SQL driver takes."""

    scheme: str
    host: str
    port: int

    @property
    def uri(self) -> str:
        """The address with every part spelled out, an IPv6 host in brackets."""
        return f"{self.scheme}://{self.place}"

    @property
    def place(self) -> str:
        """`host:port`, as messages name it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_address(text: str) -> Address:
    """Read `grpc://host:port`, `grpc+tls://host`, `host:port` or `host`; raises ValueError in one line."""
    written = text if "://" in text else f"grpc://{text}"
    try:
        parts = urlsplit(written)
        port = DEFAULT_PORT if parts.port is None else parts.port
    except ValueError as error:
        raise ValueError(f"{text!r} is not an address: {error}") from None
    if parts.scheme not in SCHEMES:
        raise ValueError(f"{text!r} is not an address: it starts with none of {', '.join(SCHEMES)}")
    if not parts.hostname or parts.path not in ("", "/") or parts.query or parts.username:
        raise ValueError(f"{text!r} is not an address: write grpc://host:port or grpc+tls://host:port")
    return Address(parts.scheme, parts.hostname, port)
