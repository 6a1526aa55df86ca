"""A model in which something is wrong says so or answers; it never reaches memory of others."""

import pytest

import _mutations

_EVERY = 113  # mutations of which one is tried here; the fuzz programs try them all


@pytest.mark.parametrize("way", ["edit", "file"])
def test_a_broken_model_answers_or_says_so_in_one_sentence(way):
    counts, bad = _mutations.sweep(list(_mutations.zoo()), way, _EVERY)
    assert bad == []
    assert counts["refused"] > 80
    assert counts["same"] > 400
