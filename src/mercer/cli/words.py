"""Sentences of the library in the words of the command line: options and columns."""

from __future__ import annotations

import re

__all__ = ["in_options"]

_OPTIONS = {
    "feature_map": "--map",
    "random_state": "--seed",
    "sample_weight": "--weights",
    **{
        name: f"--{name.replace('_', '-')}"
        for name in (
            *("n_components", "kernel", "gamma", "gamma_path", "alpha", "alphas", "loss", "solver"),
            *("checkpoint", "time", "time_budget", "scoring", "class_weight", "groups", "n_jobs"),
            *("device", "coverage", "quantiles", "offset"),
        )
    },
}
_NAMES = "|".join(sorted(_OPTIONS, key=len, reverse=True))
_START = r"(?<![-\w.=])"
_SETTING = re.compile(rf"{_START}({_NAMES})=(?:'([^']*)'|\"([^\"]*)\"|([\w.+-]*[\w+-]))")
_RULED = re.compile(rf"{_START}({_NAMES})(?= must\b)")
_OBJECT = re.compile(r" or an? (?:FeatureMap|torch\.device)(?=;)")  # no option takes one
_TABLE, _TARGET = re.compile(rf"{_START}X(?= must\b)"), re.compile(rf"{_START}y(?= must\b)")


def in_options(text: str) -> str:
    """A sentence with options, DATA and the target for parameters of Python, X and y.

    >>> in_options("feature_map must be one of 'exact'; got loss='squared'.")
    "--map must be one of 'exact'; got --loss squared."
    """
    text = _SETTING.sub(lambda m: f"{_OPTIONS[m[1]]} {m[2] or m[3] or m[4] or ''}".rstrip(), text)
    text = _OBJECT.sub("", text)
    text = _RULED.sub(lambda m: _OPTIONS[m[1]], text)
    return _TARGET.sub("the target", _TABLE.sub("DATA", text))
