"""Gu, Miao, Huo and Huang, Asynchronous doubly stochastic sparse kernel learning, AAAI 2018."""

from mercer_studies.asydsskl.grid import FIGURES, PROTOCOLS, SCALES, SOURCES
from mercer_studies.asydsskl.plan import stages
from mercer_studies.papers import Paper

PAPER = Paper("asydsskl", tuple(SCALES), PROTOCOLS, FIGURES, tuple(SOURCES), stages)
