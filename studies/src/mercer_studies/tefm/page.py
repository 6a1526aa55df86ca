"""Text of the report on the TEFM paper."""

from functools import partial

from mercer_studies.page import Drawing, Page, drawn
from mercer_studies.queries import select
from mercer_studies.sources import names_in_paper
from mercer_studies.tefm import figures as plots
from mercer_studies.tefm.claims import CLAIMS
from mercer_studies.tefm.grid import SOURCES
from mercer_studies.tefm.summary import shows
from mercer_studies.tefm.tables import tables

_KEY = "Points are means over the seeds, bars their standard deviation. Dotted is what the paper "
_KEY += "does not have."


_FIGURES = (
    Drawing(
        "Figure 1: how near the kernel matrix is",
        plots.figure1,
        lambda runs: select(runs, figure=1, protocol="fair"),
        "Relative error of the kernel matrix in the spectral norm, and below it in the "
        "Frobenius norm, against the number of features, for {data}.",
        "Gaussian kernel, its width the median distance between rows. TEFM and Comp are "
        f"made from four times as many random features. {_KEY}",
    ),
    Drawing(
        "Theorems 1 to 3: what is proved",
        plots.theorems,
        plots.bounded_runs,
        "Relative error of the kernel matrix in the spectral norm, and how much more than "
        "with the kernel itself the least regularized loss is, against the number of "
        "features, with what the theorems allow of each.",
        "Dotted is what is allowed, 19 times of 20 above: theorem 1 for TEFM-G and its "
        "first part for RKS, theorem 2 for TEFM-S, with the constants that the paper "
        "leaves out. Below is ridge regression on the ranks of the responses, n λ = 1, and "
        "theorem 3 for the measured error. Above 100 % a bound says nothing.",
    ),
    Drawing(
        "Figure 2: what the features are worth to a regression",
        plots.figure2,
        lambda runs: select(runs, figure=2, protocol="fair"),
        "Relative error of ridge regression on the test part against the number of "
        "features, for every method on {data}.",
        "γ and λ are chosen for every method at one size, on a validation part of the "
        f"training rows. The line across is the exact kernel. {_KEY}",
    ),
    Drawing(
        "Figure 3: what they cost",
        plots.figure3,
        lambda runs: select(runs, figure=3, protocol="fair"),
        "The same error against the seconds of features and training, for every method on {data}.",
        f"Along a curve the number of features grows. {_KEY}",
    ),
    Drawing(
        "Table 1: how times grow",
        plots.table1,
        lambda runs: plots.timings(runs, "n"),
        "Seconds of the features, and below them of the solution, against the number of "
        "rows, of features of the base map and of features that come out.",
        "Rows that are made up; one number is varied and the other two stay. Logarithmic "
        "axes: a power law is a straight line.",
    ),
)


PAGE = Page(
    paper="tefm",
    title="TEFM, measured again",
    about=(
        "Chen, Yang, King and Lyu, Training-efficient feature map for shift-invariant kernels "
        "(IJCAI 2015), drew more random Fourier features than wanted and kept the few directions "
        "that matter on the data: fewer features, hence faster training. Here are their figures 1 "
        "to 3 from runs of our own, with a rule for every claim that the numbers pass or fail, and "
        "beside their methods some that they did not have."
    ),
    claims=CLAIMS,
    remarks=(
        "Gaussian kernel; σ, which the paper does not give, is the median distance of the rows "
        "for the kernel matrix, and chosen on a validation part for ridge regression.",
        "Random features are pairs of cosine and sine; TEFM and Comp have a base of 4 l of them.",
        "TEFM makes l features from 4 l random ones by several products with an n × 4 l matrix, "
        "which is more work than ridge regression on 4 l random features where n is large.",
        "The theorems' constants, which the paper leaves out, are those of its proofs.",
    ),
    data=names_in_paper(SOURCES.values()),
    figures=partial(drawn, _FIGURES),
    protocols=("fair",),
    measured=tables,
    shows=shows,
    measured_note=(
        "Means over the seeds. At equal features: all methods with as many columns. At equal "
        "seconds: the least error that each method reaches within them, with the number of "
        "features that it takes; for the kernel matrix seconds are those of the features."
    ),
)
"""The report on this paper."""
