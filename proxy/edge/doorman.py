"""What the head of a request alone decides: who it is, what it wants, whether it can be served.

Whoever is turned away here costs neither the memory nor the time that its body would, and no
exception is raised for it: in a flood that is most of what the gateway does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.edge import error_table
from proxy.edge.answers import Refusal
from proxy.edge.request_headers import BadHeaderError
from proxy.edge.routes import Access, Route

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.admission.controller import AdmissionController
    from proxy.admission.outcome import Rejected
    from proxy.edge.api_keys import ApiKeys
    from proxy.edge.open_places import OpenFullError, OpenPlaces
    from proxy.edge.records import Records
    from proxy.edge.request_headers import HeaderReader, RequestHeaders
    from proxy.edge.routes import RouteTable
    from proxy.edge.visit import Visit


@dataclass(frozen=True, slots=True, kw_only=True)
class Doorman:
    """`queue_timeout_s`: the longest that anybody may wait, now."""

    header_reader: HeaderReader
    keys: ApiKeys
    routes: RouteTable
    controller: AdmissionController
    records: Records
    open_places: OpenPlaces
    queue_timeout_s: Callable[[], float]

    def objection(self, visit: Visit) -> Refusal | Rejected | OpenFullError | None:
        """Why this request may not come in, ready to be raised; None if it may.

        Writes down in the visit what it has read. To be asked once: a request that is let in is
        counted as arrived, and a refusal under load as one.
        """
        try:
            visit.headers = self.header_reader.read(visit.scope["headers"])
        except BadHeaderError as error:
            visit.headers = error.headers
            # Whoever may not ask hears that, and nothing else.
            return self._stranger(visit) or Refusal(error_table.bad_request(str(error)))
        if self.keys.required and (refusal := self._stranger(visit)):
            return refusal
        route = self._route(visit)
        if isinstance(route, Refusal):
            return route
        visit.route = route
        if route.access is not Access.GATED:
            return self.open_places.objection(route)
        self.records.arrived(visit)
        headers = visit.headers
        return self.controller.reject_early(
            self.longest_wait_s(headers), headers.attempt, headers.tenant, headers.priority
        )

    def longest_wait_s(self, headers: RequestHeaders) -> float:
        """The least of what we allow and what the client says."""
        longest = self.queue_timeout_s()
        if headers.queue_timeout_s is not None:
            longest = min(longest, headers.queue_timeout_s)
        if headers.client_timeout_s is not None:
            longest = min(longest, headers.client_timeout_s)
        return longest

    def _stranger(self, visit: Visit) -> Refusal | None:
        if not self.keys.required:
            return None
        holder = self.keys.holder(visit.scope["headers"])
        if holder is None:
            return Refusal(error_table.INVALID_API_KEY)
        visit.authenticated = True
        visit.headers.tenant = visit.headers.tenant or holder
        return None

    def _route(self, visit: Visit) -> Route | Refusal:
        method = visit.scope["method"]
        match = self.routes.match(method, visit.scope["raw_path"])
        if isinstance(match, Route):
            return match
        if match is None:
            return Refusal(error_table.UNKNOWN_PATH)
        preflight = self.routes.preflight(method) if visit.headers.asks_preflight else None
        return preflight or Refusal(error_table.method_not_allowed(method, match.allowed))
