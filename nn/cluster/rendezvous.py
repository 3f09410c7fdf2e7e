"""How the ranks of a launch meet, talk to each other, and end together: nn/cluster.py's Team of several processes.

Rank 0 listens, the others come to it; each message is JSON after its length. All stay connected for as long as they
live, and a connection that closes without a word is a rank that has died.
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
from collections.abc import Callable, Iterator
from typing import NamedTuple

from . import __version__
from .cluster import LOOPBACK, Launch, Team, Told, say
from .utils import NnError, UsageError

LIMIT = "NN_RENDEZVOUS_SECONDS"  # the environment variable, and what it is where nobody has set it
USUAL_LIMIT = 60.0
GRACE_SECONDS = 2.0  # a rank that fails waits so long for the others: what is wrong mostly is so for all
GREETING_SECONDS = 2.0  # for a stranger to say who it is
RETRY_SECONDS = 0.1
LARGEST_GREETING, LARGEST_MESSAGE = 4096, 1 << 28


# ---------------------------------------------------------------- messages


class _Line:
    """A connection on which JSON values go back and forth."""

    def __init__(self, connection: socket.socket):
        self._socket = connection
        self._sending = threading.Lock()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        # a host that is gone says nothing: ask after 10 s, and give it up after 20 more
        for option, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4)):
            if hasattr(socket, option):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)

    def limit(self, seconds: float | None) -> None:
        """From now on give up waiting after so long, with TimeoutError."""
        self._socket.settimeout(seconds)

    def send(self, *message) -> None:
        """Raises OSError where nobody listens any more."""
        text = json.dumps(message).encode()
        with self._sending:
            self._socket.sendall(len(text).to_bytes(4, "big") + text)

    def receive(self, largest: int = LARGEST_MESSAGE) -> list:
        """The next message. Raises OSError at the end of the connection, ValueError for what is none."""
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
        """Whether the other side has gone."""
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
    """How long ranks wait for each other to come. Raises UsageError for a variable that is no time."""
    text = os.environ.get(LIMIT, str(USUAL_LIMIT))
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e6:
        raise UsageError(f"{LIMIT}={text} in the environment: expected seconds above 0")
    return seconds


def meet(found: Launch) -> Ranks:
    """Wait for all ranks of the launch. Raises NnError that names those who do not come, UsageError if they are
    not of one launch."""
    seconds = limit_seconds()
    if found.rank:
        lines, welcome = _find_rank_0(found, seconds)
    else:
        lines, welcome = _await_ranks(found, seconds)
    hosts, rank = welcome["hosts"], found.rank
    local_rank = hosts[:rank].count(hosts[rank]) if found.local_rank is None else found.local_rank
    return Ranks(rank, found.size, local_rank, lines)


def _await_ranks(found: Launch, seconds: float) -> tuple[dict[int, _Line], dict]:
    """Rank 0: the connections to all others, and what they were told when all were there."""
    end = time.monotonic() + seconds
    hosts = {0: platform.node()}
    lines: dict[int, _Line] = {}
    with _listening(found) as server:
        try:
            while len(hosts) < found.size:
                line = _accepted(server, end)
                who = _greeted(line, found)
                if who is None or line.is_closed():  # a rank that has lost patience comes again
                    line.close()
                    continue
                rank = who["rank"]
                _check(who, found, line, rank in lines and not lines[rank].is_closed())
                with contextlib.suppress(OSError):
                    line.send("accepted")
                    hosts[rank], lines[rank] = who["host"], line
        except TimeoutError:
            missing = [rank for rank in range(found.size) if rank not in hosts]
            error = NnError(_missing(missing, found, seconds))
            _refuse(lines, error)
            raise error from None
        except UsageError as error:
            _refuse(lines, error)
            raise
    welcome = {"hosts": [hosts[rank] for rank in range(found.size)]}
    for line in lines.values():
        with contextlib.suppress(OSError):  # it is gone already: whoever listens to it will notice
            line.send("welcome", welcome)
    return lines, welcome


def _listening(found: Launch) -> socket.socket:
    """A server on the first port that is free; on loopback alone where all ranks are on this host."""
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
    raise NnError(f"rank 0 cannot listen on port {ports}: in use; set MASTER_PORT to one that is free")


def _accepted(server: socket.socket, end: float) -> _Line:
    """The next connection. Raises TimeoutError at the time `end`."""
    seconds = end - time.monotonic()
    if seconds <= 0:
        raise TimeoutError
    server.settimeout(seconds)
    return _Line(server.accept()[0])


def _greeted(line: _Line, found: Launch) -> dict | None:
    """What a rank of this launch says of itself; None for anybody else."""
    line.limit(GREETING_SECONDS)
    try:
        word, who, token = line.receive(LARGEST_GREETING)
        known = word == "rank" and hmac.compare_digest(str(token), found.token)
    except (OSError, ValueError):
        return None
    line.limit(None)
    return who if known else None


def _check(who: dict, found: Launch, line: _Line, twice: bool) -> None:
    """Raise UsageError, and tell that rank, if it cannot be one of the team."""
    rank, problem = who["rank"], None
    if who["version"] != __version__:
        problem = f"rank {rank} runs nn {who['version']}, rank 0 nn {__version__}; install one version everywhere"
    elif who["size"] != found.size:
        problem = f"rank {rank} was started as one of {who['size']}, rank 0 as one of {found.size}; start all anew"
    elif twice or not 0 < rank < found.size:
        problem = f"there are two of rank {rank}; give each launch a MASTER_PORT of its own"
    if problem:
        error = UsageError(problem)
        _refuse({rank: line}, error)
        raise error


def _refuse(lines: dict[int, _Line], error: NnError) -> None:
    for line in lines.values():
        with contextlib.suppress(OSError):
            line.send("refused", str(error), error.exit_code)
            line.close()


def _find_rank_0(found: Launch, seconds: float) -> tuple[dict[int, _Line], dict]:
    """Any other rank: the connection to rank 0, and what it says when all are there."""
    end = time.monotonic() + seconds
    attempt = 0
    while time.monotonic() < end:
        line = _knock(found, found.ports[attempt % len(found.ports)])
        attempt += 1
        if line is None:
            time.sleep(0 if attempt % len(found.ports) else RETRY_SECONDS)
            continue
        try:
            line.limit(seconds + 2 * GREETING_SECONDS)  # its own limit ends earlier, and tells more
            word, *said = line.receive()
        except (OSError, ValueError):
            raise NnError(f"rank 0 of {found.size} has ended before all ranks had come") from None
        if word != "welcome":
            raise Told(*said)
        line.limit(None)
        return {0: line}, said[0]
    raise NnError(_missing([0], found, seconds))


def _knock(found: Launch, port: int) -> _Line | None:
    """A connection to rank 0, if it is at that port. Raises Told if it refuses this rank."""
    try:
        line = _Line(socket.create_connection((found.host, port), timeout=GREETING_SECONDS))
    except OSError:
        return None
    who = {"rank": found.rank, "size": found.size, "version": __version__, "host": platform.node()}
    try:
        line.send("rank", who, found.token)
        word, *said = line.receive(LARGEST_GREETING)
        if word == "refused":
            raise Told(*said)
        if word == "accepted":
            return line
    except (OSError, ValueError):
        pass
    line.close()
    return None


def _missing(ranks: list[int], found: Launch, seconds: float) -> str:
    names = ", ".join(map(str, ranks[:16])) + (", ..." if len(ranks) > 16 else "")
    verb = "s " + names + " have" if len(ranks) > 1 else " " + names + " has"
    at = f"{found.host} port {found.ports[0]}"
    return (
        f"rank{verb} not come to {at} within {seconds:g} s, of {found.size} that {found.by} speaks of; "
        f"see why in their output, or allow more time by {LIMIT}"
    )


# ---------------------------------------------------------------- several ranks


class _End(NamedTuple):
    """How a rank has ended: exit code, last line, and whether of itself, not because another had failed."""

    code: int
    text: str | None
    itself: bool


class Ranks(Team):
    """The team of several processes, rank 0 in the middle. A thread for each connection notices its end.

    A rank that ends well says so and waits for the others; one that fails says why, and takes them with it.
    """

    def __init__(self, rank: int, size: int, local_rank: int, lines: dict[int, _Line]):
        self.rank, self.size, self.local_rank = rank, size, local_rank
        self._lines = lines
        self._values: dict[int, queue.SimpleQueue] = {peer: queue.SimpleQueue() for peer in lines}
        self._ended: dict[int, _End] = {}
        self._changed = threading.Condition()
        self._closed = self._left_alone = self._broken = False
        for peer in lines:
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
            raise NnError(f"rank {peer} of {self.size} has ended while the others go on")
        return value

    def _tell(self, *message, but: int | None = None) -> None:
        """Send to rank 0, or as rank 0 to all; a connection that is gone is its listener's business."""
        for peer, line in self._lines.items():
            if peer != but:
                with contextlib.suppress(OSError):
                    line.send(*message)

    # ---- what the others say

    def _listen(self, peer: int) -> None:
        try:
            while True:
                word, *rest = self._lines[peer].receive()
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
        """A launcher may end the ranks that are left, and rank 0 is to speak."""
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
        leave(1, f"rank {peer} of {self.size} has ended; so does the training, see that rank's output for why")

    def _of(self, rank: int, text: str | None) -> str | None:
        """What this rank says when `rank` has ended with that line: all of them the same would be too much."""
        if self.rank:
            return None
        return f"rank {rank} of {self.size}: {text}" if text and rank else text

    # ---- the end

    def end(self, code: int, text: str | None) -> int:
        """Team.end; waits for the others, and ends the process where they do not come to their end too."""
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
        """All have ended, or one has failed, after which the others will not be long."""
        return self._all_ended() or any(end.code for end in self._ended.values())

    def close(self) -> None:
        with self._changed:
            self._closed = True
        for line in self._lines.values():
            line.close()


def leave(code: int, text: str | None) -> None:
    """End this process at once: threads may be inside MPI, which would wait for ranks that are gone."""
    with _leaving:  # for ever: the first one leaves
        say(text)
        for call in before_leaving:
            with contextlib.suppress(OSError):
                call()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


_leaving = threading.Lock()
before_leaving: list[Callable[[], object]] = []


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
