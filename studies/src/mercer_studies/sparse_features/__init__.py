"""Yen, Lin, Lin, Ravikumar and Dhillon, Sparse random features, NIPS 2014: tables and figure 1."""

from mercer_studies.papers import Paper
from mercer_studies.sparse_features.grid import FIGURE, SCALES, SOURCES, TABLES
from mercer_studies.sparse_features.plan import stages

PAPER = Paper(
    "sparse-features", tuple(SCALES), ("published",), (FIGURE,), tuple(SOURCES), stages, TABLES
)
