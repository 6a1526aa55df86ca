"""Text of the report on the AsyDSSKL paper."""

from functools import partial

from mercer_studies.asydsskl import figures as plots
from mercer_studies.asydsskl.claims import CLAIMS
from mercer_studies.asydsskl.grid import SOURCES
from mercer_studies.asydsskl.summary import shows
from mercer_studies.asydsskl.tables import measured
from mercer_studies.page import Drawing, Page, drawn
from mercer_studies.queries import of_task
from mercer_studies.sources import names_in_paper

_FIGURES = (
    Drawing(
        "Figure 1, a to f: training",
        plots.figure1,
        plots.curves,
        "Test error against seconds of training, for AsyDSSKL and its rivals, on {data}.",
        "A point of AsyDSSKL is the model after a round; of SVC and SVR, which show "
        "nothing while they work, a machine of a part of the rows; of the others what is "
        "there at that time. Judging does not count. Class numbers are predicted under "
        "correntropy, as in the paper. Coordinate descent solves the same problems.",
    ),
    Drawing(
        "Figure 1, g and h: testing",
        plots.answers,
        lambda runs: of_task(runs, "answers"),
        "Seconds of answers against rows asked, and microseconds a row against size of "
        "the model times inputs, on {data}.",
        "Medians of three runs. The size is the number of random features with a weight, "
        "of support vectors, or of all features of DoubleSGD, which are drawn again.",
    ),
    Drawing(
        "Figure 2: threads and delays",
        plots.figure2,
        lambda runs: of_task(runs, "measured", "delayed"),
        "Above, how many times faster several threads are than one; below, loops of steps "
        "that see old weights, simulated, against the delay, for three lengths of steps; "
        "and the objective above its minimum as loops pass, with what theorem 1 allows.",
        "The target is what one thread has after half of its loops; of simulated runs, a "
        "tenth of the way from the minimum to the start. Looking for the length of steps "
        "does not count. Grey is one for one; dotted are the loops alone, wherever they "
        "lead. Crosses did not get there. Rate (11) is proved for far shorter steps than "
        "anyone takes; drawn for the steps that were taken it is no theorem.",
    ),
    Drawing(
        "Wrong targets",
        plots.robustness,
        lambda runs: of_task(runs, "robust"),
        "Test error against the share of wrong training targets, for convex losses and "
        "others, on {data}.",
        "Wrong labels are the other one; wrong numbers are 5 to 15 deviations too high. σ "
        "is in deviations of the right targets. λ is chosen on rows held out, as wrong as "
        "the others, by the model's own loss. Bars are deviations over trials.",
    ),
)


PAGE = Page(
    paper="asydsskl",
    title="Asynchronous doubly stochastic sparse kernel learning, measured again",
    about=(
        "Gu, Miao, Huo and Huang, Asynchronous doubly stochastic sparse kernel learning (AAAI "
        "2018), drew random features a few at a time and solved for their weights under an l1 "
        "penalty by steps on one coordinate and a few rows, which threads take without waiting for "
        "each other, under losses that need not be convex. Here are their Figures 1 and 2 from "
        "runs of our own, with a rule for every claim that the numbers pass or fail."
    ),
    claims=CLAIMS,
    figures=partial(drawn, _FIGURES),
    protocols=("fair",),
    measured=measured,
    shows=shows,
    remarks=(
        "The paper compares on far more rows and on 16 cores, where exact machines do not end.",
        "Correntropy of class numbers seeks the commonest class rather than the mean.",
        "The sigmoid loss starts at the minimum of the logistic loss: from zero it often ends at a "
        "constant.",
    ),
    data=names_in_paper(SOURCES.values()),
    measured_note=(
        "The paper leaves kernel, width, R, λ, mini-batches and σ open. Here: the Gaussian "
        "kernel, R = 200, mini-batches of 32, σ = 1 in deviations of the targets, five rounds of "
        "ten snapshots, as many steps between them as rows; γ, λ and the machines' C are chosen "
        "on rows held out of the training part, alike for all. Our steps move a quarter of the "
        "coordinates at a time, each by a length of its own, and start each loop near the minimum "
        "of the quadratic model at the snapshot. SVC and SVR are scikit-learn's, on growing parts "
        "of the rows; LIBSVM(P) is pairwise descent whose kernel columns all threads compute; "
        "DoubleSGD takes preconditioned blocks and the logistic loss. Errors are shares of wrong "
        "classes, or mean squared errors of class numbers. Curves are cut off after some seconds:"
        " where it says so, what a method would have come to is not known. Threads and clocks "
        "make these numbers come out differently the next time."
    ),
)
"""The report on this paper."""
