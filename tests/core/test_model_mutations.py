"""Models with a wrong attribute: none reaches memory of others; copies and files are refused."""

import pytest

import _mutations

_EVERY = 339  # mutations of which one is tried here; the fuzz programs try them all


@pytest.mark.slow
def test_an_edited_model_answers_or_raises_an_exception():
    counts, bad = _mutations.sweep(list(_mutations.zoo()), "edit", _EVERY)
    assert bad == []
    assert counts["same"] > 130


@pytest.mark.parametrize("way", [pytest.param("copy", marks=pytest.mark.slow), "file"])
def test_a_broken_copy_or_file_answers_or_is_refused_in_one_sentence(way):
    counts, bad = _mutations.sweep(list(_mutations.zoo()), way, _EVERY)
    assert bad == []
    assert counts["refused"] > 25
    assert counts["same"] > 130
