"""PackEngines: what computes several networks. Those whose layers are alike are a pack."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from ..backends.engine import Engine, Pack, PackJob
from ..backends.member import MemberEngine
from ..nn import Network
from .asks import Ask


class PackEngines:
    """The engine of each of several networks, and what they compute together."""

    def __init__(self, net: Network, networks: Sequence[Network], batch_number: int):
        """net: whose engine computes the networks of its layers."""
        self._threads = net.engine.threads
        self._at_once: list[Pack] = []  # of few members each, on one thread
        self._engines = self._made(net, networks, batch_number)

    def __getitem__(self, number: int) -> MemberEngine:
        return self._engines[number]

    @property
    def packs(self) -> list[Pack]:
        """Return the packs, each once."""
        return list(dict.fromkeys(engine.pack_of_member for engine in self._engines.values()))

    def _made(self, net: Network, networks: Sequence[Network], batch_number: int) -> dict[int, MemberEngine]:
        """Return the engine of each network by its number."""
        alike = numbers_by_layers(networks)
        small = [numbers for numbers in alike if len(numbers) < self._threads]
        at_once = net.traits.on_host and len(small) > 1 and sum(map(len, small)) >= self._threads
        engines = {}
        for numbers in alike:
            first = networks[numbers[0]]
            if at_once and numbers in small:
                engine = on_one_thread(first)
            else:
                engine = net.engine if first.layers == net.layers else first.engine
            pack = engine.pack(len(numbers), batch_number)
            if at_once and numbers in small:
                self._at_once.append(pack)
            engines |= {number: MemberEngine(engine, pack, place) for place, number in enumerate(numbers)}
        return engines

    def compute(self, what: str, asks: Mapping[int, Ask]) -> list:
        """Return what trainings ask for, all of one kind (Ask.what), in the order of the asks."""
        jobs: dict[Pack, dict[int, PackJob]] = {}
        for number, ask in asks.items():
            engine = self._engines[number]
            jobs.setdefault(engine.pack_of_member, {})[number] = engine.job(ask.job)
        found: dict[int, object] = {}
        for own in self._of_packs(what, jobs):
            found |= own
        return [found[number] for number in asks]

    def _of_packs(self, what: str, jobs: dict[Pack, dict[int, PackJob]]) -> Iterator[dict[int, object]]:
        """Yield what the jobs of each pack give: of one after the other, but for those that are small."""

        def of(pack: Pack) -> dict[int, object]:
            own = jobs[pack]
            return dict(zip(own, getattr(pack, what)(list(own.values())) or [None] * len(own), strict=True))

        yield from (of(pack) for pack in jobs if pack not in self._at_once)
        small = [pack for pack in jobs if pack in self._at_once]
        if small:
            with ThreadPoolExecutor(self._threads) as workers:
                yield from workers.map(of, small)


def numbers_by_layers(networks: Sequence[Network]) -> list[list[int]]:
    """Return the numbers of the networks by their layers."""
    alike: dict[tuple, list[int]] = {}
    for number, net in enumerate(networks):
        alike.setdefault(tuple(net.layers), []).append(number)
    return list(alike.values())


def on_one_thread(net: Network) -> Engine:
    """Return a network's engine, made for one thread; the network's own setting stays."""
    threads, net.threads = net.threads, 1
    try:
        return net.engine
    finally:
        net.threads = threads
