"""Linear equations whose rows are on workers: the current x is here, all else is derived there."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.arrays import available_memory
from mercer._runtime.random import Slot, Streams
from mercer._runtime.rows import Data
from mercer.distributed.fingerprint import digest_of_shards
from mercer.distributed.parts import DesignFacts, DesignPart
from mercer.distributed.run import Run, ShardState
from mercer.distributed.solves import RemoteSolves
from mercer.engines.engine import Engine, Handle
from mercer.engines.memory import WorkerStore
from mercer.equations import Equations

__all__ = ["BlockIndices", "RemoteEquations", "SettledPart", "room_of_workers"]


class BlockIndices:
    """Numbers of the columns of a block, as requests name them: sent once, or a range."""

    def __init__(self, J: NDArray[np.int64]):
        self.first, self.n = (int(J[0]), len(J)) if len(J) else (0, 0)
        self._numbers = None if len(J) == 0 or J[-1] - J[0] == len(J) - 1 else J

    @property
    def is_range(self) -> bool:
        return self._numbers is None

    def numbers(self) -> NDArray[np.int64]:
        """The numbers, increasing."""
        if self._numbers is None:
            return np.arange(self.first, self.first + self.n)
        return self._numbers


class _Update(NamedTuple):
    """Changes of the current x, in this order, that a request brings to the workers."""

    columns: BlockIndices | Handle | None = None  # of a block
    delta: NDArray[np.float64] | None = None  # added there
    ended: int | None = None  # number of epochs whose changes stay, the one that ends among them
    # Functions beside these changes, and the weights of both in a combination, by strengths.
    combined: tuple[Handle | None, NDArray[np.float64]] | None = None
    kept: NDArray[np.int64] | None = None  # columns of x that stay
    begins: bool = False  # a journal at zero


class RemoteEquations(Equations):
    """Common base of equations of rows on workers; the first base of those of each form.

    The truth is x and the strengths ``alphas`` (q,), here. A request carries the move since the
    last one, which workers make before they answer; x is replaced, never written to, as it may be
    on its way. ``run`` counts requests, words and rebuilt shards.
    """

    spans_subspaces: ClassVar[bool] = False

    def __init__(
        self,
        problem: Any,
        alphas: NDArray[np.float64],
        kind: type[ShardState],
        facts: DesignFacts,
    ):
        Equations.__init__(self, problem, alphas)
        engine = problem.run.engine
        self.n_machines = max(1, int(engine.n_workers))
        self.run: Run = problem.run.within(kind, facts)
        self._version = 0
        # Update that leads to this version from the one before; None once workers have made it.
        self._pending: _Update | None = None
        self._truth_here: tuple[Any, ...] | None = None
        self._columns: dict[bytes, BlockIndices | Handle] = {}
        self._bytes_per_row = 0.0

    def _take_rows(self) -> None:
        self.parts = []

    # -- requests ----------------------------------------------------------------------------

    def _ask(self, ask: str, *args: Any) -> Any:
        """Sum over the shards of a request at the current x."""
        try:
            value = self.run.total(
                ask, *args, version=self._version, update=self._pending, truth=self._truth
            )
        except BaseException:  # nobody knows which workers have made the move
            self._go_to_new_version()
            raise
        self._pending = None
        return value

    def _truth(self, number: int) -> Any:
        """The truth that states follow from; the same object for all shards, sent once."""
        if self._truth_here is None:
            self._truth_here = self.x, self.strengths()
        return self._truth_here

    def _truth_at_x(self, number: int) -> Any:
        """The truth without its history, for audits."""
        return self._truth(number)

    def _go_to_new_version(self) -> None:
        """The current x is not a move from the last one: workers begin anew."""
        self._version += 1
        self._pending = self._truth_here = None

    def _named(self, J: NDArray[np.int64]) -> BlockIndices | Handle:
        """Columns as arguments of requests; numbers that are no range are shared once."""
        key = J.tobytes()
        if key not in self._columns:
            columns = BlockIndices(J)
            if not columns.is_range:
                self.run.words["sent", "columns"] += columns.n
            self._columns[key] = columns if columns.is_range else self.run.engine.share(columns)
        return self._columns[key]

    @property
    def _n_levels(self) -> int:
        return (self.run.engine.n_shards - 1).bit_length()

    # -- the current point -------------------------------------------------------------------

    def start(self, x: NDArray[np.float64], blocks: list[NDArray] | None = None) -> None:
        self.state = {"x": np.array(x, dtype=np.float64)}
        self._go_to_new_version()

    def _move(
        self, J: NDArray, rows: NDArray, delta: NDArray[np.float64], sent: NDArray[np.float64]
    ) -> None:
        """Add ``delta`` to rows of x; the next request brings ``sent`` to the workers, for J."""
        x = self.x.copy()
        x[rows] += delta
        if self._pending is not None:  # two moves without a request between them
            self._go_to_new_version()
        else:
            self._update(columns=self._named(J), delta=sent)
        self.state, self._truth_here = {"x": x}, None
        if self.journal:
            journal = self.journal["x"].copy()
            journal[rows] += delta
            self.journal = {"x": journal}

    def _update(self, **parts: Any) -> None:
        """Add parts to the update that the next request brings."""
        if self._pending is None:
            self._version += 1
        self._pending = (self._pending or _Update())._replace(**parts)
        self._truth_here = None

    def keep(self, index: NDArray) -> None:
        columns = (np.asarray(index)[:, None] * self.width + np.arange(self.width)).ravel()
        super().keep(index)
        earlier = None if self._pending is None else self._pending.kept
        self._update(kept=columns if earlier is None else earlier[columns])

    def restore(self, saved: dict[str, NDArray]) -> None:
        super().restore(saved)
        self._go_to_new_version()

    # -- machines ----------------------------------------------------------------------------

    def available_memory(self) -> int | None:
        return room_of_workers(self.run.engine)

    def cache(self, n_bytes: float, blocks: list[NDArray] | None = None) -> None:
        self._bytes_per_row = max(0.0, n_bytes) / self.n_rows

    @property
    def cached(self) -> bool:
        return False  # columns are forgotten where a worker is lost

    def solves(self, budget: float) -> RemoteSolves:
        return RemoteSolves(self.run, budget)

    def audit(self, epoch: int) -> None:
        if self._pending is not None:  # workers are still where the last block began
            self._ask("fix_key")
        n_shards = self.run.engine.n_shards
        draw = Streams(0, np.array([epoch])).bits(1, Slot.SHUFFLE)[0, 0]
        self.run.audit(self._version, self._truth_at_x, int(draw % np.uint64(n_shards)))

    def close(self) -> None:
        self._columns.clear()
        self.run.forget()

    # -- what they are made of ---------------------------------------------------------------

    def facts(self) -> dict[str, Any]:
        facts, problem = self.run.facts, self.problem
        return {
            "shape": [self.n_rows, *problem.shape],
            "dtype": np.dtype(problem.dtype).name,
            "map": type(facts.preprocessing.feature_map).__name__,
            "penalty": [problem.penalty.name, getattr(problem.penalty, "jitter", 0.0)],
            "intercept": problem.fit_intercept,
        }

    def data(self) -> tuple[list[Data], NDArray, NDArray | None]:
        return [], digest_of_shards(self.run.engine), None


class SettledPart(DesignPart):
    """A part whose one request is the move to the current x."""

    def fix_key(self, state: Any) -> None:
        """Nothing: the state is there."""


def room_of_workers(engine: Engine) -> int | None:
    """Bytes that can be taken on every worker; None where that is not known."""
    rooms = engine.everywhere(_room)
    return min((room for room in rooms if room is not None), default=None)


def _room(memory: WorkerStore) -> int | None:
    with memory.bounded():
        return available_memory()
