"""Wu, Yen, Chen and Yan, Revisiting random binning features, KDD 2016: figures 2 to 6."""

from mercer_studies.papers import Paper
from mercer_studies.random_binning.grid import FIGURES, PROTOCOLS, SCALES, SOURCES
from mercer_studies.random_binning.plan import stages

PAPER = Paper("random-binning", tuple(SCALES), PROTOCOLS, FIGURES, tuple(SOURCES), stages)
