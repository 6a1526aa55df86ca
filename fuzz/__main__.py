"""The command: ``python -m fuzz [SWEEP ...] --seed N --seconds S``, or ``--replay FILE``."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from fuzz import runner

_COLUMNS = ("tried", "refused", *runner.FAULTS)


def main() -> int:
    """Run sweeps or a kept case; 1 if anything is wrong."""
    options = _options()
    # Workers inherit it; threads of the core are a case's own affair.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if options.replay:
        report = runner.replay(options.replay)
        _say("\n".join([*report.said, f"{report.outcome}: {report.text}"]))
        return int(report.outcome in runner.FAULTS)
    names = list(runner.SWEEPS) if "all" in options.sweeps else options.sweeps
    tallies = {}
    for name in names:
        for tally in runner.run(
            name, options.seed, options.seconds / len(names), options.out, options.first
        ):
            tallies[name] = tally
        for kind, file in tallies[name].faults.items():
            _say(f"{kind}\n    {file}")
    _say(f"{'':12}" + "".join(f"{column:>10}" for column in _COLUMNS))
    for name, tally in tallies.items():
        counts = {**tally.counts, "tried": tally.tried}
        _say(f"{name:12}" + "".join(f"{counts.get(column, 0):>10}" for column in _COLUMNS))
    return int(any(tally.n_faults for tally in tallies.values()))


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("sweeps", nargs="*", default="all", choices=[*runner.SWEEPS, "all"])
    parser.add_argument("--seed", type=int, default=0, help="decides every case")
    parser.add_argument("--seconds", type=float, default=60.0, help="for all sweeps together")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--out", type=Path, default=Path("fuzz-faults"), help="kept cases")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="run one kept case again")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
