"""Tu, Roelofs, Venkataraman and Recht, Large scale kernel learning by block descent, 2016."""

from mercer_studies.block_descent.grid import FIGURES, SCALES, SOURCES, TABLES
from mercer_studies.block_descent.plan import stages
from mercer_studies.block_descent.scaling import SHAPES
from mercer_studies.papers import Paper

PAPER = Paper(
    "block-descent", tuple(SCALES), ("fair",), FIGURES, (*SOURCES, *SHAPES), stages, TABLES
)
