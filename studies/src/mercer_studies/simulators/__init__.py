"""Algorithms run as they would on machines that are not there: delays, processors, clusters.

``block_rates`` is what theory expects of the steps that ``mercer`` takes for real.
"""

from mercer_studies.simulators.block_rates import (
    BlockRates,
    block_rates,
    effective_lipschitz,
    hessian_of,
    restricted_lipschitz,
)
from mercer_studies.simulators.cluster import Link, SimulatedBlock, broadcast_words, simulate_block
from mercer_studies.simulators.delays import Delayed, simulate_delays
from mercer_studies.simulators.rounds import Rounds, simulate_rounds

__all__ = [
    "BlockRates",
    "Delayed",
    "Link",
    "Rounds",
    "SimulatedBlock",
    "block_rates",
    "broadcast_words",
    "effective_lipschitz",
    "hessian_of",
    "restricted_lipschitz",
    "simulate_block",
    "simulate_delays",
    "simulate_rounds",
]
