"""Chen, Yang, King and Lyu, Training-efficient feature map, IJCAI 2015: figures 1 to 3."""

from mercer_studies.papers import Paper
from mercer_studies.tefm.grid import FIGURES, PROTOCOLS, SCALES, SOURCES
from mercer_studies.tefm.plan import stages

PAPER = Paper("tefm", tuple(SCALES), PROTOCOLS, FIGURES, tuple(SOURCES), stages)
