"""From a host's name to addresses that may be dialled."""

import queue
import socket
import threading
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address


class UnsafeDestination(Exception):
    """The host has an address outside the allowed networks."""


def resolve(host: str, port: int, timeout: float) -> list[str]:
    """Return the host's addresses, each once, in the resolver's order.

    The resolver has no time-out of its own, so it runs in a thread that is
    abandoned when it takes too long.

    Raises:
        TimeoutError: If the resolver has not answered within ``timeout`` seconds.
        OSError: If the name has no address.
    """
    answers: queue.SimpleQueue[list[str] | OSError] = queue.SimpleQueue()
    threading.Thread(
        target=_look_up, args=(host, port, answers), name="resolver", daemon=True
    ).start()
    try:
        answer = answers.get(timeout=timeout)
    except queue.Empty as error:
        message = f"no address of {host} within {timeout:.1f} s"
        raise TimeoutError(message) from error
    if isinstance(answer, OSError):
        raise answer
    return answer


def _look_up(host: str, port: int, answers: "queue.SimpleQueue[list[str] | OSError]") -> None:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        answers.put(error)
    except UnicodeError:
        answers.put(socket.gaierror(socket.EAI_NONAME, "not a host name"))
    else:
        answers.put(list(dict.fromkeys(str(entry[4][0]) for entry in found)))


def require_allowed(addresses: Sequence[str], networks: Sequence[Network]) -> None:
    """Refuse a host of which even one address is outside ``networks``.

    All of them are looked at, since it is the sender's choice which one a
    name gives first. Addresses are checked, never text: a host may be written
    in many ways.

    Raises:
        UnsafeDestination: Naming the first such address.
    """
    for text in addresses:
        address = _unwrapped(ip_address(text))
        if not any(
            address.version == network.version and address in network for network in networks
        ):
            raise UnsafeDestination(text)


def _unwrapped(address: Address) -> Address:
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
