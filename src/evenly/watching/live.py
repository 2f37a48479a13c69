"""A live page that runs beside other work, in threads of its own."""

from __future__ import annotations

import logging
import secrets
import socket
import threading
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from evenly.errors import EvenlyError, InvalidParameter, MissingDependency
from evenly.facts.records import Fact
from evenly.notebook import shown
from evenly.watching.access import LOOPBACK, Access, is_loopback
from evenly.watching.history import History
from evenly.watching.sources import Waited

_LOG = logging.getLogger(__name__)
_START_S = 20.0
_MOST_CONNECTIONS = 64
_LEAST_TOKEN = 16
PORT = 8477


class LiveWatch:
    """A page that shows what runs while it runs: `url` is where, `close` ends it.

        query = evenly.stream_by_key(rows, visits, key="user", instances=16, checkpoint="/data/visits")
        page = query.watch()
        page.url, page.port
        page.close()

    In a notebook it shows itself. Only this machine reaches it, unless it was given another `host` and a `token`.
    """

    def __init__(
        self,
        *,
        title: str,
        source: Iterator[Waited] | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        token: str | None = None,
        ended: str = "",
    ) -> None:
        check_installed()
        _check(host, port, token)
        self.history = History()
        self._stopping = threading.Event()
        self._closers: list[Callable[[], object]] = []
        self._socket = _bound(host, port)
        self.port = int(self._socket.getsockname()[1])
        self._host, self._token = host, token
        self._server = self._made(title, Access(_names(host), token))
        self._serving = threading.Thread(target=self._serve, name="evenly watch", daemon=True)
        self._serving.start()
        self._started(self._serving)
        self._feeding = threading.Thread(
            target=self._feed, args=(source or iter(()), ended), name="evenly watch source", daemon=True
        )
        self._feeding.start()

    @property
    def url(self) -> str:
        """Where the page is, with its token if there is one."""
        named = self._host if self._host not in ("0.0.0.0", "::") else socket.gethostname()  # noqa: S104 - asked for
        token = "" if self._token is None else f"?token={quote(self._token)}"
        return f"http://{f'[{named}]' if ':' in named else named}:{self.port}/{token}"

    def add(self, fact: Fact) -> None:
        """Show a record."""
        self.history.add(fact)

    def when_closed(self, closer: Callable[[], object]) -> None:
        """Have something else ended with the page."""
        self._closers.append(closer)

    def close(self) -> None:
        """End the page; browsers that show it keep what they have. A second call does nothing."""
        self._stopping.set()
        closers, self._closers = self._closers, []
        for closer in closers:
            closer()
        self._server.should_exit = True
        self._serving.join(_START_S)
        self._socket.close()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the page is closed; False after so many seconds."""
        return self._stopping.wait(seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._stopping.is_set() else f"http://{self._host}:{self.port}/"
        return f"LiveWatch({state})"

    def _repr_html_(self) -> str:
        if self._stopping.is_set():
            return shown("Live page", {"state": "closed"})
        return (
            f'<iframe src="{self.url}" title="Evenly: what runs" width="100%" height="720" '
            f'style="border:1px solid #8886;border-radius:6px"></iframe><div><a href="{self.url}" target="_blank" '
            f'rel="noopener">Open the live page</a></div>'
        )

    def _made(self, title: str, access: Access) -> Any:
        # Imported here, so that `import evenly` and the other commands need no web framework.
        import uvicorn  # noqa: PLC0415

        from evenly.watching.server import application  # noqa: PLC0415

        served = application(
            self.history,
            title=title,
            access=access,
            cookie=f"evenly_watch_{self.port}",
            epoch=secrets.token_hex(4),
            stopping=self._stopping,
        )
        return uvicorn.Server(
            uvicorn.Config(
                served,
                log_config=None,
                log_level="critical",
                access_log=False,
                lifespan="off",
                server_header=False,
                limit_concurrency=_MOST_CONNECTIONS,
                timeout_graceful_shutdown=1,
                ws="none",
            )
        )

    def _serve(self) -> None:
        self._server.run(sockets=[self._socket])

    def _started(self, thread: threading.Thread) -> None:
        waited = threading.Event()
        for _ in range(int(_START_S / 0.01)):
            if self._server.started or not thread.is_alive():
                break
            waited.wait(0.01)

    def _feed(self, source: Iterator[Waited], ended: str) -> None:
        try:
            for wait_s, told in source:
                if self._stopping.wait(wait_s):
                    return
                for one in told:
                    if isinstance(one, str):
                        self._say(one)
                    else:
                        self.history.add(one)
            if ended:
                self.history.notice(ended)
        except EvenlyError as error:
            self._say(str(error))
        except Exception as error:
            self._say(f"No more records are read: {type(error).__name__}: {error}")
            raise

    def _say(self, text: str) -> None:
        self.history.notice(text)
        _LOG.warning("%s", text)


def check_installed() -> None:
    """Say what to install, if a live page lacks something."""
    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        raise MissingDependency("the live page needs a web server: pip install 'evenly[watch]'")


def _check(host: str, port: int, token: str | None) -> None:
    if not 0 <= port <= 65_535:
        raise InvalidParameter(f"port must be from 0 (any free one) to 65535, got {port}")
    if token is not None and len(token) < _LEAST_TOKEN:
        raise InvalidParameter(f"a token must have at least {_LEAST_TOKEN} characters, this one has {len(token)}")
    if token is not None and not (token.isascii() and token.isprintable()):
        raise InvalidParameter("a token must be of letters, digits and signs of ASCII, as headers are: --token new makes one")
    if token is None and not is_loopback(host):
        raise InvalidParameter(
            f"others than this machine could read the page at {host}: give a token too (--token new makes one), "
            "or leave the host out and forward the port, as by ssh -L"
        )


def _names(host: str) -> frozenset[str]:
    own = {host.lower(), socket.gethostname().lower(), socket.getfqdn().lower()} if not is_loopback(host) else {host.lower()}
    return LOOPBACK | own


def _bound(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except OSError as error:
        raise InvalidParameter(f"{host} is no address of this machine ({error})") from error
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise InvalidParameter(
            f"{host}:{port} cannot be served ({error}): give another port (0: any free one) or an address of this machine"
        ) from error
    return bound
