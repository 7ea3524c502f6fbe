"""The receiving side of the demo: a tenant's server that applies each event once.

Run as ``python -m django_example.demo.receiver --fd 3 --database file --plan plan.json``
on a listening socket that the parent has opened. The plan names the tenants'
secrets and the events for which the receiver misbehaves::

    {"secrets": {"acme": ["whsec_…"]},
     "faults": {"evt_1": {"failures": 2, "applied_first": false, "delay": 0.5}}}
"""

import argparse
import json
import socket
import threading
import time
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from django_example.demo.ledger import Ledger
from django_example.webhooks import signatures

TOLERANCE = 300


@dataclass(frozen=True)
class Fault:
    """How the receiver misbehaves for one event.

    Attributes:
        failures: How many requests get a 503.
        applied_first: Whether those apply the event all the same, as a server
            does that dies after its own commit.
        delay: Seconds that every answer takes.
    """

    failures: int = 0
    applied_first: bool = False
    delay: float = 0.0


@dataclass(frozen=True)
class Plan:
    """Whom the receiver knows, and for which events it misbehaves."""

    secrets: dict[str, list[str]] = field(default_factory=dict)
    faults: dict[str, Fault] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a plan as described above."""
        plan = json.loads(path.read_text())
        faults = {event: Fault(**fault) for event, fault in plan["faults"].items()}
        return cls(plan["secrets"], faults)


class Receiver:
    """What the server does with a delivery, apart from HTTP."""

    def __init__(self, plan: Plan, ledger: Ledger) -> None:
        self._plan = plan
        self._ledger = ledger

    def is_genuine(self, tenant: str, header: str, body: bytes) -> bool:
        """Tell whether the tenant's deliverer signed this body just now."""
        try:
            signature = signatures.parse(header)
        except signatures.MalformedSignature:
            return False
        secrets = self._plan.secrets.get(tenant, [])
        return signature.is_fresh(time.time(), TOLERANCE) and signature.is_by(secrets, body)

    def take(self, tenant: str, key: str, token: str, body: bytes) -> HTTPStatus:
        """Apply an event, unless its key is known already or the plan says to fail."""
        event = json.loads(body)["id"]
        fault = self._plan.faults.get(event, Fault())
        # An event that never comes, so this is a wait and nothing else.
        threading.Event().wait(fault.delay)
        fails = self._ledger.note_request(key, tenant, event, token) <= fault.failures
        if not fails or fault.applied_first:
            self._ledger.apply_once(key)
        return HTTPStatus.SERVICE_UNAVAILABLE if fails else HTTPStatus.OK


class Handler(BaseHTTPRequestHandler):
    """``POST /hooks/<tenant>`` takes a delivery, ``GET /applied`` shows the ledger."""

    receiver: Receiver
    ledger: Ledger

    def do_POST(self) -> None:
        """Take one delivery."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        tenant = self.path.rpartition("/")[2]
        if not self.receiver.is_genuine(
            tenant, self.headers.get(signatures.OUTGOING_HEADER, ""), body
        ):
            self._answer(HTTPStatus.UNAUTHORIZED, {"error": "wrong signature"})
            return
        key, token = self.headers["Idempotency-Key"], self.headers["Fencing-Token"]
        self._answer(self.receiver.take(tenant, key, token, body), {})

    def do_GET(self) -> None:
        """Show what came and what was applied."""
        if self.path == "/applied":
            self._answer(HTTPStatus.OK, {"deliveries": self.ledger.summary()})
        else:
            self._answer(HTTPStatus.NOT_FOUND, {})

    def _answer(self, status: HTTPStatus, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class InheritedSocketServer(ThreadingHTTPServer):
    """Serves on a socket that listens already, so no client can come too early."""

    daemon_threads = True

    def __init__(self, fd: int, handler: type[BaseHTTPRequestHandler]) -> None:
        listening = socket.socket(fileno=fd)
        super().__init__(listening.getsockname(), handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening


def main() -> None:
    """Serve until the process is told to end."""
    parser = argparse.ArgumentParser(description="Receive the demo's deliveries.")
    parser.add_argument("--fd", type=int, required=True, help="a listening socket")
    parser.add_argument("--database", type=Path, required=True)
    parser.add_argument("--plan", type=Path, required=True)
    options = parser.parse_args()
    ledger = Ledger(options.database)
    handler = type(
        "BoundHandler",
        (Handler,),
        {"receiver": Receiver(Plan.read(options.plan), ledger), "ledger": ledger},
    )
    InheritedSocketServer(options.fd, handler).serve_forever()


if __name__ == "__main__":
    main()
