"""Where coordinators of one store are: one address, or several of which one is asked at a time."""

from __future__ import annotations

from yarl import URL

from eventjobs.client.errors import InvalidValue
from eventjobs.domain.limits import URL_DEFAULT


class Addresses:
    """Addresses in the order in which they are tried: the first, until it does not answer, then the next, around."""

    def __init__(self, urls: str) -> None:
        """`urls` is one address or several with commas between. Raises InvalidValue for what is no address."""
        parts = urls.split(",") if isinstance(urls, str) else [urls]
        self._all = [_address(part.strip() if isinstance(part, str) else part) for part in parts]
        self._at = 0

    def __str__(self) -> str:
        return ",".join(self._all)

    @property
    def current(self) -> str:
        """The one that is asked now."""
        return self._all[self._at]

    def turn_from(self, address: str) -> None:
        """It did not answer: ask the next, unless somebody has turned from it already."""
        if address == self.current:
            self._at = (self._at + 1) % len(self._all)


def _address(url: str) -> str:
    try:
        parsed = URL(url)
    except (ValueError, TypeError) as error:
        raise InvalidValue(f"{url!r} is not an address such as {URL_DEFAULT}") from error
    if parsed.scheme not in ("http", "https") or not parsed.host or parsed.query_string or parsed.fragment:
        raise InvalidValue(f"{url!r} is not an address such as {URL_DEFAULT}")
    return str(parsed).rstrip("/")
