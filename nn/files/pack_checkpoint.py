"""The checkpoint of several networks that are trained together: the states of all of them in one file."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .checkpoint import COUNTS, Checkpoint, Fingerprint, Position, position_of


class PackCheckpoint:
    """The states of `count` members in the file of a Checkpoint, which says where and when.

    fingerprint: of the whole run. Raises what Checkpoint.read raises.
    """

    def __init__(self, checkpoint: Checkpoint, count: int, fingerprint: Fingerprint):
        self._checkpoint, self._fingerprint = checkpoint, fingerprint
        self.keeps_states = checkpoint.keeps_states
        self.states: list[tuple[dict, dict] | None] = [None] * count  # facts and arrays of each member
        found = checkpoint.read(fingerprint) if checkpoint.path is not None or checkpoint.source is not None else None
        self.resumed = found is not None
        if found is not None:
            self._take(*found)

    def _take(self, facts: dict, arrays: dict[str, np.ndarray]) -> None:
        """Divide a file's content among the members. Raises DataError for other content."""
        members = facts.get("members")
        if not isinstance(members, list) or len(members) != len(self.states):
            raise self._checkpoint.damaged(f"`members` is missing or wrong, expected {len(self.states)}")
        for number, counts in enumerate(members):
            own = {
                name.removeprefix(prefix): array
                for prefix in [f"member{number}."]
                for name, array in arrays.items()
                if name.startswith(prefix)
            }
            if not own:
                continue
            valid = isinstance(counts, dict) and all(
                type(counts.get(name)) is int and 0 <= counts[name] < 2**63 for name in COUNTS
            )
            if not valid:
                raise self._checkpoint.damaged(f"`members` has no entry for member {number}")
            self.states[number] = counts, own

    def member(self, number: int) -> MemberCheckpoint:
        """Return what the training of a member takes for its checkpoint."""
        return MemberCheckpoint(self, number, self._checkpoint)

    @property
    def path(self) -> str | None:
        """Return where the states are written; None: nowhere."""
        return self._checkpoint.path

    def due(self, epoch: int, epochs: int) -> bool:
        """See Checkpoint.due."""
        return self._checkpoint.due(epoch, epochs)

    def write(self) -> None:
        """Write all members' states, if there is a file for them."""
        if self._checkpoint.path is None:
            return
        arrays = {
            f"member{number}.{name}": array
            for number, state in enumerate(self.states)
            if state is not None
            for name, array in state[1].items()
        }
        counts = [None if state is None else state[0] for state in self.states]
        self._checkpoint.write_later(self._fingerprint, dict.fromkeys(COUNTS, 0) | {"members": counts}, arrays)

    def finish(self) -> None:
        """Wait until the file is written, or cannot be; see Checkpoint.finish."""
        self._checkpoint.finish()

    def lose_for_memory(self) -> None:
        """See Checkpoint.lose_for_memory."""
        self._checkpoint.lose_for_memory()


class MemberCheckpoint:
    """A Checkpoint for one member: it keeps the state for the file of all."""

    def __init__(self, pack: PackCheckpoint, number: int, checkpoint: Checkpoint):
        self._pack, self._number = pack, number
        self.keeps_states, self.source = pack.keeps_states, checkpoint.source

    def load(self, fingerprint: Fingerprint, fresh: Position) -> tuple[Position, dict[str, np.ndarray]] | None:
        """Return (position, vectors) to go on from, checked; None to start afresh."""
        state = self._pack.states[self._number]
        if state is None:
            return None
        return position_of(self.source, *state, fingerprint, fresh)

    def due(self, epoch: int, epochs: int) -> bool:
        """Return False: the pack asks all members to save at once."""
        return False

    def lose_for_memory(self) -> None:
        """See Checkpoint.lose_for_memory."""
        self._pack.lose_for_memory()

    def save(self, fingerprint: Fingerprint, position: Position, vectors: dict[str, np.ndarray]) -> None:
        """Keep the state as it is now."""
        copied = replace(position)
        counts = {name: getattr(copied, name) for name in COUNTS}
        self._pack.states[self._number] = counts, {**vectors, **copied.arrays()}

    def finish(self) -> None:
        """Do nothing: the pack writes."""
