"""How the ranks of a launch meet, exchange values and end together: the RankGroup of several processes.

Rank 0 listens, the other ranks connect to it; each message is JSON after its length. Connections stay open until the
end: a connection that closes without a message stands for a rank that has died.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import platform
import queue
import socket
import sys
import threading
import time
from collections.abc import Iterator
from typing import NamedTuple

from .. import __version__
from ..utils import NnError, UsageError
from .launch import LOOPBACK, Launch
from .rank_group import AlreadyReported, RankGroup, run_end_hooks, say

LIMIT = "NN_RENDEZVOUS_SECONDS"  # the environment variable, and what it is where nobody has set it
USUAL_LIMIT = 60.0
GRACE_SECONDS = 2.0  # a rank that fails waits so long for the others: what is wrong mostly is so for all
GREETING_SECONDS = 2.0  # for a stranger to say who it is
RETRY_SECONDS = 0.1
LARGEST_GREETING, LARGEST_MESSAGE = 4096, 1 << 28


# ---------------------------------------------------------------- messages


class _Connection:
    """A connection on which JSON values go back and forth."""

    def __init__(self, sock: socket.socket):
        self._socket = sock
        self._sending = threading.Lock()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        # a host that is gone says nothing: ask after 10 s, and give it up after 20 more
        for option, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4)):
            if hasattr(socket, option):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)

    def limit(self, seconds: float | None) -> None:
        """Stop waiting after so many seconds from now on, with TimeoutError."""
        self._socket.settimeout(seconds)

    def send(self, *message) -> None:
        """Send a message. Raises OSError if the connection is closed."""
        text = json.dumps(message).encode()
        with self._sending:
            self._socket.sendall(len(text).to_bytes(4, "big") + text)

    def receive(self, largest: int = LARGEST_MESSAGE) -> list:
        """Return the next message. Raises OSError at the end of the connection, ValueError for anything else."""
        length = int.from_bytes(self._bytes(4), "big")
        if length > largest:
            raise ValueError(f"a message of {length} bytes")
        message = json.loads(self._bytes(length))
        if not isinstance(message, list) or not message:
            raise ValueError("not a message")
        return message

    def _bytes(self, count: int) -> bytes:
        parts = []
        while count:
            part = self._socket.recv(min(count, 1 << 20))
            if not part:
                raise ConnectionError("the connection was closed")
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def is_closed(self) -> bool:
        """Return True if the other side has closed the connection."""
        try:
            return self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


# ---------------------------------------------------------------- the rendezvous


def limit_seconds() -> float:
    """Return how long ranks wait for each other. Raises UsageError if the variable is not a time."""
    text = os.environ.get(LIMIT, str(USUAL_LIMIT))
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e6:
        raise UsageError(f"{LIMIT}={text} in the environment: expected seconds above 0")
    return seconds


def meet(found: Launch) -> ProcessGroup:
    """Wait for all ranks of the launch. Raises NnError that names those who do not come, UsageError if they are
    not of one launch."""
    seconds = limit_seconds()
    if found.rank:
        connections, welcome = _find_rank_0(found, seconds)
    else:
        connections, welcome = _await_ranks(found, seconds)
    hosts, rank = welcome["hosts"], found.rank
    local_rank = hosts[:rank].count(hosts[rank]) if found.local_rank is None else found.local_rank
    return ProcessGroup(rank, found.size, local_rank, connections)


def _await_ranks(found: Launch, seconds: float) -> tuple[dict[int, _Connection], dict]:
    """Return, on rank 0, the connections to all others, and the message that all got."""
    end = time.monotonic() + seconds
    hosts = {0: platform.node()}
    connections: dict[int, _Connection] = {}
    with _listening(found) as server:
        try:
            while len(hosts) < found.size:
                connection = _accepted(server, end)
                who = _greeted(connection, found)
                if who is None or connection.is_closed():  # a rank that has lost patience comes again
                    connection.close()
                    continue
                rank = who["rank"]
                _check(who, found, connection, rank in connections and not connections[rank].is_closed())
                with contextlib.suppress(OSError):
                    connection.send("accepted")
                    hosts[rank], connections[rank] = who["host"], connection
        except TimeoutError:
            missing = [rank for rank in range(found.size) if rank not in hosts]
            error = NnError(_missing(missing, found, seconds))
            _refuse(connections, error)
            raise error from None
        except UsageError as error:
            _refuse(connections, error)
            raise
    welcome = {"hosts": [hosts[rank] for rank in range(found.size)]}
    for connection in connections.values():
        with contextlib.suppress(OSError):  # it is gone already: whoever listens to it will notice
            connection.send("welcome", welcome)
    return connections, welcome


def _listening(found: Launch) -> socket.socket:
    """Return a server on the first port that is free; on loopback only if all ranks are on this host."""
    address = LOOPBACK if found.host in (LOOPBACK, "localhost") else ""
    for port in found.ports:
        server = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind((address, port))
            server.listen(found.size)
            return server
        except OSError:
            server.close()
    ports = ", ".join(map(str, found.ports))
    raise NnError(f"rank 0 cannot listen on port {ports}: in use; set MASTER_PORT to a free port")


def _accepted(server: socket.socket, end: float) -> _Connection:
    """Return the next connection. Raises TimeoutError at the time `end`."""
    seconds = end - time.monotonic()
    if seconds <= 0:
        raise TimeoutError
    server.settimeout(seconds)
    return _Connection(server.accept()[0])


def _greeted(connection: _Connection, found: Launch) -> dict | None:
    """Return what a rank of this launch says of itself, None for any other caller."""
    connection.limit(GREETING_SECONDS)
    try:
        word, who, token = connection.receive(LARGEST_GREETING)
        known = word == "rank" and hmac.compare_digest(str(token), found.token)
    except (OSError, ValueError):
        return None
    connection.limit(None)
    return who if known else None


def _check(who: dict, found: Launch, connection: _Connection, twice: bool) -> None:
    """Raise UsageError, and tell that rank, if it cannot be one of the group."""
    rank, problem = who["rank"], None
    if who["version"] != __version__:
        problem = f"rank {rank} runs nn {who['version']}, rank 0 nn {__version__}; install one version everywhere"
    elif who["size"] != found.size:
        problem = f"rank {rank} was started as one of {who['size']}, rank 0 as one of {found.size}; restart all"
    elif twice or not 0 < rank < found.size:
        problem = f"two processes are rank {rank}; give each launch its own MASTER_PORT"
    if problem:
        error = UsageError(problem)
        _refuse({rank: connection}, error)
        raise error


def _refuse(connections: dict[int, _Connection], error: NnError) -> None:
    for connection in connections.values():
        with contextlib.suppress(OSError):
            connection.send("refused", str(error), error.exit_code)
            connection.close()


def _find_rank_0(found: Launch, seconds: float) -> tuple[dict[int, _Connection], dict]:
    """Return, on any other rank, the connection to rank 0, and its message when all have come."""
    end = time.monotonic() + seconds
    attempt = 0
    while time.monotonic() < end:
        connection = _knock(found, found.ports[attempt % len(found.ports)])
        attempt += 1
        if connection is None:
            time.sleep(0 if attempt % len(found.ports) else RETRY_SECONDS)
            continue
        try:
            connection.limit(seconds + 2 * GREETING_SECONDS)  # its own limit ends earlier, and tells more
            word, *said = connection.receive()
        except (OSError, ValueError):
            raise NnError(f"rank 0 of {found.size} ended before all ranks had connected") from None
        if word != "welcome":
            raise AlreadyReported(*said)
        connection.limit(None)
        return {0: connection}, said[0]
    raise NnError(_missing([0], found, seconds))


def _knock(found: Launch, port: int) -> _Connection | None:
    """Return a connection to rank 0, if it listens at that port. Raises AlreadyReported if it refuses this rank."""
    try:
        connection = _Connection(socket.create_connection((found.host, port), timeout=GREETING_SECONDS))
    except OSError:
        return None
    who = {"rank": found.rank, "size": found.size, "version": __version__, "host": platform.node()}
    try:
        connection.send("rank", who, found.token)
        word, *said = connection.receive(LARGEST_GREETING)
        if word == "refused":
            raise AlreadyReported(*said)
        if word == "accepted":
            return connection
    except (OSError, ValueError):
        pass
    connection.close()
    return None


def _missing(ranks: list[int], found: Launch, seconds: float) -> str:
    names = ", ".join(map(str, ranks[:16])) + (", ..." if len(ranks) > 16 else "")
    late = f"rank{'s' * (len(ranks) > 1)} {names}"
    at = f"{found.host} port {found.ports[0]}"
    return (
        f"{late} of {found.size} (started by {found.by}) did not connect to {at} within {seconds:g} s; "
        f"see their output, or allow more time with {LIMIT}"
    )


# ---------------------------------------------------------------- several ranks


class _End(NamedTuple):
    """How a rank has ended: exit code, last line, and whether of itself, not because another had failed."""

    code: int
    text: str | None
    itself: bool


class ProcessGroup(RankGroup):
    """The group of several processes, rank 0 in the middle. A thread for each connection notices its end.

    A rank that ends well says so and waits for the others; one that fails says why, and takes them with it.
    """

    def __init__(self, rank: int, size: int, local_rank: int, connections: dict[int, _Connection]):
        self.rank, self.size, self.local_rank = rank, size, local_rank
        self._connections = connections
        self._values: dict[int, queue.SimpleQueue] = {peer: queue.SimpleQueue() for peer in connections}
        self._ended: dict[int, _End] = {}
        self._changed = threading.Condition()
        self._closed = self._left_alone = self._broken = False
        for peer in connections:
            threading.Thread(target=self._listen, args=(peer,), daemon=True).start()

    def gather(self, value) -> list:
        if self.rank:
            self._tell("value", value)
            return self._value_of(0)
        values = [value, *(self._value_of(peer) for peer in range(1, self.size))]
        self._tell("value", values)
        return values

    def _value_of(self, peer: int):
        ended, value = self._values[peer].get()
        if ended:
            raise NnError(f"rank {peer} of {self.size} ended while the others were still running")
        return value

    def _tell(self, *message, but: int | None = None) -> None:
        """Send to rank 0, or as rank 0 to all; a connection that is gone is its listener's business."""
        for peer, connection in self._connections.items():
            if peer != but:
                with contextlib.suppress(OSError):
                    connection.send(*message)

    # ---- what the others say

    def _listen(self, peer: int) -> None:
        try:
            while True:
                word, *rest = self._connections[peer].receive()
                if word == "value":
                    self._values[peer].put((False, *rest))
                elif word == "end":
                    self._heard_end(peer, *rest)
                elif word == "lost":
                    leave(1, None)  # rank 0 says it
        except (OSError, ValueError, TypeError):
            self._lost(peer)

    def _heard_end(self, peer: int, rank: int, *end) -> None:
        if self.rank == 0:
            self._tell("end", rank, *end, but=peer)
        if rank == peer and not end[0]:
            self._values[peer].put((True, None))
        self._note(rank, _End(*end))
        if end[0]:
            threading.Thread(target=self._follow, args=(rank,), daemon=True).start()

    def _note(self, rank: int, end: _End) -> bool:
        """Remember how a rank has ended; whether that is news."""
        with self._changed:
            news = rank not in self._ended
            self._ended.setdefault(rank, end)
            self._changed.notify_all()
            return news

    def _follow(self, rank: int) -> None:
        """End as a rank that has failed did, unless this one comes to an end by itself."""
        with self._changed:
            if self._changed.wait_for(lambda: self.rank in self._ended, GRACE_SECONDS):
                return
        self._leave(rank)

    def _leave(self, rank: int) -> None:
        """End this process because `rank` has failed; rank 0 tells of it."""
        code, text, _ = self._ended[rank]
        if self._note(self.rank, _End(code, None, False)):
            self._tell("end", self.rank, code, None, False)
        self._let_rank_0_go()
        leave(code, self._of(rank, text))

    def _let_rank_0_go(self) -> None:
        """Wait until rank 0 has printed: a launcher may end the ranks that are left."""
        with self._changed:
            self._changed.wait_for(lambda: self.rank == 0 or self._left_alone, GRACE_SECONDS / 2)

    def _lost(self, peer: int) -> None:
        with self._changed:
            self._left_alone = True
            self._changed.notify_all()
            if self._closed or peer in self._ended or self._broken:
                return
            self._broken = True  # those who leave when they are told are not to be named instead
        if self.rank == 0:
            self._tell("lost", peer, but=peer)
        leave(1, f"rank {peer} of {self.size} ended, and so does the training; see that rank's output")

    def _of(self, rank: int, text: str | None) -> str | None:
        """Return what this rank prints when `rank` has ended with that line: only rank 0 prints."""
        if self.rank:
            return None
        return f"rank {rank} of {self.size}: {text}" if text and rank else text

    # ---- the end

    def end(self, code: int, text: str | None) -> int:
        """See RankGroup.end; wait for the others, and end the process where they do not end too."""
        if self._note(self.rank, _End(code, text, True)):
            self._tell("end", self.rank, code, text, True)
        with self._changed:
            self._changed.wait_for(self._over)
            if not self._all_ended():
                self._changed.wait_for(self._all_ended, 2 * GRACE_SECONDS)
            together = self._all_ended() and all(end.itself for end in self._ended.values())
            failed = next((rank for rank in range(self.size) if rank in self._ended and self._ended[rank].code), None)
        if failed is not None:
            code, text = self._ended[failed].code, self._of(failed, self._ended[failed].text)
        if together:
            say(text)
        self._let_rank_0_go()
        if not together:
            leave(code, text)
        self.close()
        return code

    def _all_ended(self) -> bool:
        return len(self._ended) == self.size

    def _over(self) -> bool:
        """Return True if all have ended, or one has failed, which ends the others soon."""
        return self._all_ended() or any(end.code for end in self._ended.values())

    def close(self) -> None:
        with self._changed:
            self._closed = True
        for connection in self._connections.values():
            connection.close()


def leave(code: int, text: str | None) -> None:
    """End this process at once: threads may be inside MPI, which would wait for ranks that are gone."""
    with _leaving:  # for ever: the first one leaves
        say(text)
        with contextlib.suppress(OSError):
            run_end_hooks(together=False)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


_leaving = threading.Lock()


@contextlib.contextmanager
def limited(seconds: float, text: str) -> Iterator[None]:
    """End the process with `text` if the block, which may wait for other ranks in C, takes longer."""
    timer = threading.Timer(seconds, leave, (1, text))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
