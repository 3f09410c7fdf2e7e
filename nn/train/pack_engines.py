"""PackEngines: what computes several networks. Those of a place whose layers are alike are a pack."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

from ..backends import Place
from ..backends.engine import Engine, Pack, PackJob
from ..backends.member import MemberEngine
from ..nn import Network
from .asks import Ask, stop_all


class PackEngines:
    """The engine of each of several networks, and what they compute together: each place those of its share."""

    def __init__(self, net: Network, networks: Mapping[int, Network], places: Sequence[Place], batch_number: int):
        """net: whose engine, at the first place, computes the networks of its layers. networks: by their numbers."""
        self._net, self._threads = net, net.engine.threads
        self._at_once: list[Pack] = []  # of few members each, on one thread
        self._engines: dict[int, MemberEngine] = {}
        numbers = list(networks)
        for place, where in enumerate(places):
            share = numbers[len(numbers) * place // len(places) : len(numbers) * (place + 1) // len(places)]
            for number in share if place else ():
                networks[number].compute_at(where)
            self._engines |= self._made({number: networks[number] for number in share}, place, batch_number)

    def __getitem__(self, number: int) -> MemberEngine:
        return self._engines[number]

    def get(self, number: int) -> MemberEngine | None:
        """Return the engine of a network; None for one that is not computed here."""
        return self._engines.get(number)

    @property
    def packs(self) -> list[Pack]:
        """Return the packs, each once."""
        return list(dict.fromkeys(engine.pack_of_member for engine in self._engines.values()))

    def _made(self, networks: Mapping[int, Network], place: int, batch_number: int) -> dict[int, MemberEngine]:
        """Return the engine of each network of a place by its number."""
        net, alike = self._net, numbers_by_layers(networks)
        small = [numbers for numbers in alike if len(numbers) < self._threads]
        at_once = net.traits.on_host and len(small) > 1 and sum(map(len, small)) >= self._threads
        engines = {}
        for numbers in alike:
            first = networks[numbers[0]]
            if at_once and numbers in small:
                engine = on_one_thread(first)
            else:
                engine = net.engine if first.layers == net.layers and not place else first.engine
            pack = engine.pack(len(numbers), batch_number)
            if at_once and numbers in small:
                self._at_once.append(pack)
            engines |= {number: MemberEngine(engine, pack, member, place) for member, number in enumerate(numbers)}
        return engines

    def compute(self, what: str, asks: Mapping[int, Ask]) -> list:
        """Return what trainings ask for, all of one kind (Ask.what), in the order of the asks."""
        by_place: dict[int, dict[Pack, dict[int, PackJob]]] = {}
        for number, ask in asks.items():
            engine = self._engines[number]
            jobs = by_place.setdefault(engine.place, {})
            jobs.setdefault(engine.pack_of_member, {})[number] = engine.job(ask.job)
        found: dict[int, object] = {}
        for own in at_the_same_time([lambda jobs=jobs: self._of_packs(what, jobs) for jobs in by_place.values()], asks):
            found |= own
        return [found[number] for number in asks]

    def _of_packs(self, what: str, jobs: dict[Pack, dict[int, PackJob]]) -> dict[int, object]:
        """Return what the jobs of each pack of a place give: of one after the other, but for those that are small."""

        def of(pack: Pack) -> dict[int, object]:
            own = jobs[pack]
            return dict(zip(own, getattr(pack, what)(list(own.values())) or [None] * len(own), strict=True))

        parts = [of(pack) for pack in jobs if pack not in self._at_once]
        small = [pack for pack in jobs if pack in self._at_once]
        if small:
            with ThreadPoolExecutor(self._threads) as workers:
                parts += workers.map(of, small)
        return {number: result for part in parts for number, result in part.items()}


def at_the_same_time(calls: Sequence[Callable[[], dict]], asks: Mapping[int, Ask]) -> list[dict]:
    """Return what the calls give, each in a thread of its own. Raises the first error of one, once the others, which
    are told to stop what was asked for, have ended."""
    if len(calls) < 2:
        return [call() for call in calls]
    with ThreadPoolExecutor(len(calls)) as workers:
        running = [workers.submit(call) for call in calls]
        done, others = wait(running, return_when=FIRST_EXCEPTION)
        if others:
            stop_all(asks)
        error = next((future.exception() for future in done if future.exception()), None)
        if error is not None:
            raise error
        return [future.result() for future in running]


def numbers_by_layers(networks: Mapping[int, Network]) -> list[list[int]]:
    """Return the numbers of the networks by their layers."""
    alike: dict[tuple, list[int]] = {}
    for number, net in networks.items():
        alike.setdefault(tuple(net.layers), []).append(number)
    return list(alike.values())


def on_one_thread(net: Network) -> Engine:
    """Return a network's engine, made for one thread; the network's own setting stays."""
    threads, net.threads = net.threads, 1
    try:
        return net.engine
    finally:
        net.threads = threads
