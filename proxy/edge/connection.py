"""The client's connection: uvicorn's HTTP/1.1 protocol with the answers and bounds that we promise.

uvicorn parses, frames and keeps alive; see docs/decisions for why its class is extended instead of
replaced. What is added:

- malformed requests get an OpenAI error, never a plain-text one, and never in the middle of an
  answer;
- the head of a request is bounded in size, in fields (431) and in time (408), an upload that goes
  on after its answer is bounded in time, and so is a client that does not read;
- trailers and chunk extensions are bounded too, and dropped; trailers end the connection;
- a pipelined request does not stop us from seeing that the client has left, nor from telling the
  request that runs, as uvicorn would tell only the one that was read last;
- a request to upgrade that we do not follow (`h2c`, as Java's client sends it) is served and its
  connection closed, because the parser cannot go on after it;
- the application can break a connection off, and can answer an HTTP/1.0 client without chunks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from proxy.edge import unreadable
from proxy.edge.chunk_framing import TOO_MUCH_FRAMING, ChunkFraming, rest_for_a_turn
from proxy.edge.client_connection import CONNECTION_EXTENSION, ClientConnection, ConnectionRefusal
from proxy.edge.entrance import WrittenAnswer, enter_of
from proxy.edge.light_event import LightEvent
from proxy.edge.request_target import take_apart
from proxy.edge.response_cycle import ResponseCycle
from proxy.edge.upgrade_body import announces_body, body_parser

if TYPE_CHECKING:
    import asyncio

    from uvicorn._types import ASGI3Application, ASGIVersions

# What may wait behind a running request. No client in use pipelines; the bounds are for attackers.
_MAX_PIPELINED = 8
_MAX_PIPELINED_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Seconds: for a request to arrive, for a client to read nothing of what it is sent, and for a
    connection to be kept without a request."""

    request_s: float
    write_s: float
    idle_s: float


class SluiceProtocol(HttpToolsProtocol):
    """One client connection. `reading_since` is when the request now arriving began, on the loop's
    clock; None while none is. `running` is the request that was begun last: uvicorn's `cycle` is
    the one whose head was read last, which may have to wait for its turn."""

    # Beyond 30 attributes Python keeps an object's in a hash table, which takes 1.4 KiB (3.13).
    __slots__ = (
        "_asgi", "_body_after_upgrade", "_due", "_enter", "_extensions", "_framing",
        "_has_begun", "_head_bytes", "_hosts", "_idle_since", "_in_head", "_is_deaf", "_read_bytes",
        "_stalled_since", "_unsent_bytes", "reading_since", "refusal", "running",
    )  # fmt: skip

    cycle: ResponseCycle | None  # type: ignore[assignment]  # uvicorn's forgets that it begins as None
    pipeline: list[tuple[ResponseCycle, ASGI3Application]]  # type: ignore[assignment]  # smaller
    running: ResponseCycle

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - as uvicorn calls it
        super().__init__(*args, **kwargs)
        self.pipeline, self.headers = [], []
        self.reading_since: float | None = None
        self.refusal: ConnectionRefusal | None = None
        self._has_begun = self._due = self._is_deaf = self._in_head = False
        self._body_after_upgrade = False
        self._framing: ChunkFraming | None = None  # of the chunked request that is arriving
        self._head_bytes = self._read_bytes = self._hosts = self._unsent_bytes = 0
        self._stalled_since = self._idle_since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn declares it
        super().connection_made(transport)
        self.flow._is_writable_event = LightEvent(is_set=True)  # noqa: SLF001 - a lighter one
        self._extensions = {CONNECTION_EXTENSION: ClientConnection(self)}
        self._asgi: ASGIVersions = {"version": self.asgi_version, "spec_version": "2.3"}
        self._enter = enter_of(self.app)
        self.reading_since = self.loop.time()
        self._in_head = True

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.pipeline.clear()
        self.cycle = None  # one that was to come leads back here
        if self._has_begun and not self.running.response_complete:
            self.running.disconnected = True
            self.running.message_event.set()

    def data_received(self, data: bytes) -> None:
        if self._is_deaf:
            return
        self._read_bytes = len(data)
        if self._framing is not None:
            self._framing.add_read(len(data))
        self._parse(data)
        if self.pipeline:  # before any is begun: each one that is answered at once begins the next
            self._read_on_behind_running()
        if self._due:
            self._due = False
            self._begin(self.running, self.app)
        if self._in_head:
            # Counted per read, after parsing: a head that came whole with its body costs nothing.
            self._head_bytes += len(data)
            if too_large := unreadable.too_large(self._head_bytes, self.headers):
                self._refuse(431, "bad_request", too_large)
        elif self._framing is not None and self._framing.is_too_much:
            self._refuse(431, "bad_request", TOO_MUCH_FRAMING)
        elif self._framing is not None and self._is_answered:
            rest_for_a_turn(self.transport, self.loop)

    def _parse(self, data: bytes) -> None:
        """As uvicorn's, but that the client is told what is wrong, and the log is not flooded."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserCallbackError as error:
            if not isinstance(error.__context__, unreadable.UnreadableHeadError):
                raise
            self._refuse(error.__context__.status, "bad_request", str(error.__context__))
        except httptools.HttpParserError as error:
            self._refuse(400, "bad_request", f"The request is not valid HTTP/1.1: {error}.")
        except httptools.HttpParserUpgrade as upgrade:
            self._decline_upgrade(data[upgrade.args[0] :])

    def _decline_upgrade(self, rest: bytes) -> None:
        """We follow none: the request is served as if it had not asked, and ends the connection,
        because the parser cannot go on after it."""
        if self._body_after_upgrade:
            self._body_after_upgrade = False
            self.parser = body_parser(self.headers, self)
            self._parse(rest)
        else:
            self._is_deaf = True

    def on_message_begin(self) -> None:
        """As uvicorn's, but for the extensions, and without the state of a lifespan."""
        self.url = b""
        self.expect_100_continue = False
        self.headers = []
        self.scope = {  # type: ignore[typeddict-item]  # the rest comes with the head's end
            "type": "http",
            "asgi": self._asgi,
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme or "http",
            "root_path": self.root_path,
            "headers": self.headers,
            "extensions": self._extensions,  # type: ignore[typeddict-item]  # ours
        }
        self.reading_since = self.loop.time()
        self._in_head = True
        self._framing = None
        self._head_bytes = self._hosts = 0

    def on_headers_complete(self) -> None:
        """As uvicorn's, but for the cycle's class, and for what it costs: no limit_concurrency
        (admission is ours), no app state, and the URL taken apart by hand where it is a path."""
        may_be_large = self._head_bytes + self._read_bytes > unreadable.MAX_HEAD_BYTES
        if may_be_large or self._framing is not None:
            self._measure_head()
        parser = self.parser
        http_version = parser.get_http_version()
        self.scope["method"] = parser.get_method().decode("ascii")
        self.scope["http_version"] = http_version
        unreadable.check_head(http_version, self._hosts, self.headers)
        upgrade = parser.should_upgrade()
        self._body_after_upgrade = upgrade and announces_body(self.headers)
        self._set_target(self.url)
        self._in_head = False  # not sooner: a head that is refused is answered for itself
        self._head_bytes = 0
        previous = self.cycle
        keep_alive = http_version != "1.0" and not upgrade and parser.should_keep_alive()
        self.cycle = ResponseCycle(self, keep_alive)
        if previous is None or previous.response_complete:
            self.running = self.cycle
            self._due = True  # once all that came with it is parsed: it may be no request at all
        else:
            # uvicorn stops reading until the running request is answered, and with that would no
            # longer see its client leave. Here reading goes on, within a bound.
            self.pipeline.insert(0, (self.cycle, self.app))

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head and self.cycle is not None:  # a trailer
            # It says nothing about a request that has been judged by its head. But one may be
            # `Connection: close`, behind which the parser drops whatever comes.
            self.cycle.be_the_last()
            return
        name = name.lower()
        if name == b"host":
            self._hosts += 1
        elif name == b"transfer-encoding":
            unreadable.check_coding(value)
            self._framing = ChunkFraming()
        elif name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def _measure_head(self) -> None:
        """Exactly, since bytes of a body, or of an earlier request, may have been counted."""
        size = unreadable.check_head_size(self.url, self.headers)
        if self._framing is not None:
            self._framing.begin(self._read_bytes, max(0, size - self._head_bytes))

    def _set_target(self, url: bytes) -> None:
        target = take_apart(url)
        self.scope["path"] = target.path
        self.scope["raw_path"] = target.raw_path
        self.scope["query_string"] = target.query

    def _read_on_behind_running(self) -> None:
        waiting = self.pipeline[0][0]
        if len(self.pipeline) > _MAX_PIPELINED or waiting.buffered_bytes > _MAX_PIPELINED_BYTES:
            self._stop_listening()
        self.flow.resume_reading()

    def _stop_listening(self) -> None:
        """What came behind the running request is not answered; the connection ends with it."""
        self._is_deaf = True
        self._in_head = False
        self.reading_since = None
        self.pipeline.clear()
        self.cycle = self.running
        self.running.keep_alive = False

    def _begin(self, running: ResponseCycle, app: ASGI3Application) -> None:
        self.running = running
        self._has_begun = True
        if self._enter is not None and self._may_be_answered_at_once(running):
            entered = self._enter(running.scope, running.receive, running.send)
            if isinstance(entered, WrittenAnswer):
                running.answer_at_once(entered)
                return
            app = entered
        self._start_asgi_task(running, app)

    def _may_be_answered_at_once(self, cycle: ResponseCycle) -> bool:
        """Not if the connection would end before the body is here, nor while the client does not
        read what it is answered."""
        return (
            (cycle.keep_alive or not cycle.more_body)
            and not cycle.waiting_for_100_continue
            and not self.flow.write_paused
            and not self.transport.is_closing()
        )

    def on_body(self, body: bytes) -> None:
        """As uvicorn's, but that nothing is copied."""
        if self._framing is not None:
            self._framing.add_data(len(body))
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            return
        cycle.add_body(body)
        if cycle.buffered_bytes > HIGH_WATER_LIMIT:
            self.flow.pause_reading()

    def on_message_complete(self) -> None:
        if self._body_after_upgrade:
            return  # so says the parser, which has skipped the body
        if self._framing is not None:
            self._framing.check()
        self._framing = None
        self.reading_since = None
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            cycle.more_body = False
            cycle.message_event.set()

    def on_response_complete(self) -> None:
        """As uvicorn's, but that no timer is set for each answer (1.6 us): idle connections are
        found by enforce_time_limits."""
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._begin(*self.pipeline.pop())
        else:
            self._idle_since = self.loop.time()

    def enforce_time_limits(self, now: float, limits: ConnectionLimits) -> None:
        """Ends what has been arriving, unread or idle for too long. Called every second."""
        if self.reading_since is not None:
            self._end_slow_request(now - self.reading_since, limits.request_s)
        elif self._is_answered and now - self._idle_since >= limits.idle_s:
            self.transport.close()
        unsent = self.transport.get_write_buffer_size()
        # Less means that the client reads; more means that it has made room for more.
        if unsent == 0 or unsent != self._unsent_bytes or self._may_add_to_unsent:
            self._stalled_since = now
        elif now - self._stalled_since >= limits.write_s:
            # With a reset: what the kernel still holds, and then an orderly end, would pass for the
            # whole of a body that ends with its connection.
            self._extensions[CONNECTION_EXTENSION].abort()
        self._unsent_bytes = unsent

    @property
    def _is_answered(self) -> bool:
        return self.cycle is not None and self.cycle.response_complete

    @property
    def _may_add_to_unsent(self) -> bool:
        """While it may, a buffer that does not shrink says nothing about the client."""
        answering = self.cycle is not None and not self.cycle.response_complete
        return answering and not self.flow.write_paused and not self.transport.is_closing()

    def _end_slow_request(self, arriving_for_s: float, limit_s: float) -> None:
        if arriving_for_s < limit_s:
            return
        cycle = self.cycle
        if self._in_head:
            if self._head_bytes:
                message = f"The request head did not arrive within {limit_s:g} s."
                self._refuse(408, "body_timeout", message)
            elif cycle is None:
                self.transport.close()  # connected and never said a word
        elif cycle is not None and cycle.response_complete and arriving_for_s > 2 * limit_s:
            # While the application waits for a body it times it itself; this one was answered
            # early and is still being sent.
            self.transport.close()

    def _refuse(self, status: int, code: str, message: str) -> None:
        """Answers for the request that cannot be read, and closes."""
        if self.transport.is_closing():
            return
        self._is_deaf = True  # the parser makes no sense of what comes after, either
        if self._in_head:
            self.headers.clear()  # nobody reads them, and the request before may run on for long
        cycle = self.cycle
        if self.pipeline:
            self._stop_listening()  # several answers are due before this one could be
        elif cycle is not None and cycle.is_of_an_earlier_request:
            cycle.keep_alive = False  # what cannot be read comes after it and is never answered
        elif not self._in_head and cycle is not None and cycle.response_complete:
            self.transport.close()  # the rest of a body whose request was answered already
        else:
            self.refusal = ConnectionRefusal(status, code)
            self.transport.write(unreadable.answer_to_unreadable(status, code, message))
            self.transport.close()
