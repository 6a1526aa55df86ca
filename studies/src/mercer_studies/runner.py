"""Studies: runs in declared stages, each of which leaves a record, through any interruption."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from mercer._runtime.arrays import n_threads
from mercer.compare import records
from mercer.compare.records import quiet
from mercer.datasets import DataError

KIND = "mercer reproduce"
_FORMAT = 1
_KEY_DIGITS = 16

Record = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """One run of a study.

    ``settings``: all that determines the result, in what JSON can hold. It goes into the record,
    and its hash is the name of the run; ``run``: takes what the stage loaded and returns the rest
    of the record; ``cost``: roughly its seconds: for the progress alone, corrected by what runs of
    its kind took; ``notes``: further entries of the record that determine nothing.
    """

    settings: Mapping[str, Any]
    run: Callable[[Any], Mapping[str, Any]]
    cost: float
    label: str  # of the run, in a few words
    kind: str = ""  # runs of one kind err alike in their costs
    notes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Name of the run."""
        return key_of(self.settings)


@dataclass(frozen=True)
class Stage:
    """Runs that need the same data and may depend on what earlier stages found.

    ``cells``: takes the records there are and returns the runs. It is also asked before its turn,
    for the time left: then with the records there are by then; ``load``: returns what the runs work
    on. Consecutive stages with the same function load once. A ``DataError`` leaves out all stages
    with that function, and the study says so. A function with an attribute ``missing`` that names a
    data set is left out before any run.
    """

    name: str
    cells: Callable[[Sequence[Record]], Sequence[Cell]]
    load: Callable[[], Any] | None = None


@dataclass(frozen=True)
class Progress:
    """Progress of a study."""

    share: float  # of the time of this call, in [0, 1]; it never goes back
    left: float  # seconds to go
    text: str  # description of the run


@dataclass(frozen=True)
class Outcome:
    """Records and remarks of a study so far."""

    records: list[Record]  # all that its file holds and that did not fail later or before
    n_new: int  # number of records that this call added
    notes: list[str]  # a sentence for everything that was left out


def key_of(settings: Mapping[str, Any]) -> str:
    """The name of a run: 16 hexadecimal digits that depend on nothing but its settings."""
    text = json.dumps(records.plain(settings), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_KEY_DIGITS]


class RecordFile:
    """The records of a study, in a file that only ever grows by whole lines.

    ``paper``: name of the study; records of another one are refused; ``resume``: whether to go on
    with what the file holds. A last line that was cut off is then removed; it is the only thing
    that ever is.
    """

    def __init__(self, path: str | os.PathLike[str], paper: str, resume: bool):
        self.path = Path(path)
        self._found: dict[str, Record] = {}
        if not self.path.exists() or self.path.stat().st_size == 0:
            return
        if not resume:
            raise ValueError(
                f"{self.path} holds records already; add to them with resume (--resume), "
                "or write to another folder."
            )
        _cut_torn_line(self.path)
        for record in records.read(self.path):
            if record.get("record") != KIND or record.get("paper") != paper:
                raise ValueError(f"{self.path} must hold records of {paper} alone.")
            self._found[record["key"]] = record

    @property
    def done(self) -> set[str]:
        """Names of the runs that need not be done again; those that failed get another chance."""
        return {key for key, record in self._found.items() if "failed" not in record}

    @property
    def records(self) -> list[Record]:
        """The last record of every run, in the order of the first ones."""
        return list(self._found.values())

    def append(self, record: Mapping[str, Any]) -> None:
        """Write one record, or nothing."""
        records.append(self.path, record)
        self._found[record["key"]] = records.plain(record)


def run(
    paper: str,
    stages: Sequence[Stage],
    path: str | os.PathLike[str],
    *,
    resume: bool = False,
    n_jobs: int | None = None,
    common: Mapping[str, Any] | None = None,
    on_record: Callable[[Record], None] = lambda record: None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    on_note: Callable[[str], None] = lambda note: None,
) -> Outcome:
    """Do the runs of all stages that the record file lacks.

    A failing run leaves a record with the sentence ``failed`` for its results, and the study goes
    on. An interrupt passes through: records are complete, and the run under way leaves none.
    ``stages``: in the order in which they are done; ``path``: the record file, JSON lines;
    ``resume``: go on with what the file holds; ``common``: entries of every record; ``on_record``,
    ``on_progress``: called after every run, with its record and with how far the study is;
    ``on_note``: called before the first run with the sentence that names the data sets that are
    left out, if there is something else to run.
    """
    file = RecordFile(path, paper, resume)
    head = {"record": KIND, "format": _FORMAT, "paper": paper, **(common or {})}
    study = _Run(file, head, n_jobs, on_record, on_progress)
    with threadpool_limits(n_threads(n_jobs)), _noted() as study.signals:
        study.leave_out_missing(stages, on_note)
        for position, stage in enumerate(stages):
            study.do(stage, stages[position + 1 :])
    if file.records:
        study.finish()
    return Outcome(file.records, study.n_new, study.notes)


class _Run:
    """One call of :func:`run`: what is loaded, what was left out, and how fast it goes."""

    def __init__(
        self,
        file: RecordFile,
        head: Mapping[str, Any],
        n_jobs: int | None,
        on_record: Callable[[Record], None],
        on_progress: Callable[[Progress], None],
    ):
        self.n_new = 0
        self.notes: list[str] = []
        self.signals: list[int] = []
        self._file = file
        self._head = {**head, "run": records.new_run(), **records.environment(n_jobs)}
        self._on_record, self._on_progress = on_record, on_progress
        self._load: Callable[[], Any] | None = None
        self._loaded: Any = None
        self._missing: set[Callable[[], Any]] = set()
        self._pace = _Pace()
        self._started = time.perf_counter()
        self._share = 0.0

    def leave_out_missing(self, stages: Sequence[Stage], on_note: Callable[[str], None]) -> None:
        """Leave out the stages whose data are not available, and name the data in one sentence."""
        todo = [stage for stage in stages if self._todo(stage)]
        missing = {stage.load: getattr(stage.load, "missing", "") for stage in todo if stage.load}
        names = sorted({name for name in missing.values() if name})
        if not names:
            return
        self._missing.update(load for load, name in missing.items() if name)
        self.notes.append(
            f"{', '.join(names)}: not at hand, and no download is possible here; put the files "
            "into the folder that MERCER_DATA names (mercer.datasets.describe tells their source)."
        )
        if any(stage.load not in self._missing for stage in todo):
            on_note(self.notes[-1])

    def do(self, stage: Stage, later: Sequence[Stage]) -> None:
        """The runs of one stage that are not done yet."""
        cells = self._todo(stage)
        if not cells or not self._ready(stage):
            return
        after = [cell for other in later for cell in self._todo(other)]
        for position, cell in enumerate(cells):
            left = [*cells[position:], *after]
            self._tell(f"{stage.name}: {cell.label}", left)
            started = time.perf_counter()
            record = {**self._head, "key": cell.key, **cell.settings, **cell.notes}
            record |= _result(cell, self._loaded)
            if self.signals:  # which a solver may have taken for its own, and kept its model
                raise KeyboardInterrupt
            self._pace.took(cell, time.perf_counter() - started)
            self._file.append(record)
            self.n_new += 1
            self._on_record(record)

    def finish(self) -> None:
        """Say that all is done."""
        self._tell("done", [])

    def _todo(self, stage: Stage) -> list[Cell]:
        if stage.load in self._missing:
            return []
        done = self._file.done
        todo = {cell.key: cell for cell in stage.cells(self._file.records)}
        return [cell for key, cell in todo.items() if key not in done]

    def _ready(self, stage: Stage) -> bool:
        """Load what a stage works on, unless it is there; whether it could be had."""
        if stage.load is None or stage.load is self._load:
            return True
        self._load = self._loaded = None  # the data before make room
        try:
            self._loaded = stage.load()
        except DataError as error:
            self._missing.add(stage.load)
            self.notes.append(_sentence(error))
            return False
        self._load = stage.load
        return True

    def _tell(self, text: str, left: Sequence[Cell]) -> None:
        spent = time.perf_counter() - self._started
        seconds = sum(map(self._pace.seconds, left))
        if left:
            self._share = max(self._share, min(0.999, spent / (spent + seconds + 1e-9)))
        else:
            self._share = 1.0
        self._on_progress(Progress(self._share, seconds, text))


class _Pace:
    """Seconds of runs to come, from their costs and from what runs of their kind took."""

    def __init__(self) -> None:
        self._spent: dict[str, float] = defaultdict(float)
        self._costs: dict[str, float] = defaultdict(float)

    def took(self, cell: Cell, seconds: float) -> None:
        for kind in (cell.kind, ""):
            self._spent[kind] += seconds
            self._costs[kind] += cell.cost

    def seconds(self, cell: Cell) -> float:
        kind = cell.kind if self._costs.get(cell.kind) else ""
        known = self._costs.get(kind, 0.0)
        return cell.cost * (self._spent[kind] / known if known else 1.0)


def _result(cell: Cell, loaded: Any) -> dict[str, Any]:
    """Results and warnings of a run, or the reason for its failure in a sentence."""
    with quiet() as caught:
        try:
            found = dict(cell.run(loaded))
        except Exception as error:  # one run's failure must not end a study of hours
            found = {"failed": _sentence(error)}
    found["warnings"] = sorted({str(w.message) for w in caught} | set(found.get("warnings", ())))
    return found


@contextmanager
def _noted() -> Iterator[list[int]]:
    """Signals that interrupt, as they come; their handlers go on as before."""
    signals: list[int] = []
    handlers: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)  # Windows lacks the last one
            if number is not None and callable(signal.getsignal(number)):
                handlers[number] = signal.getsignal(number)

    def note(number: int, frame: Any) -> None:
        signals.append(number)
        handlers[number](number, frame)

    try:
        for number in handlers:
            signal.signal(number, note)
        yield signals
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _sentence(error: Exception) -> str:
    text = " ".join(str(error).split())
    if not text:
        text = "there is not enough memory" if isinstance(error, MemoryError) else "no reason given"
    if not isinstance(error, (ValueError, MemoryError)):
        text = f"{type(error).__name__}: {text}"
    return text if text.endswith(".") else f"{text}."


def _cut_torn_line(path: Path) -> None:
    """Remove what follows the last line break: a record whose writing was cut off."""
    with open(path, "rb+") as file:
        content = file.read()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            file.truncate(whole)
