"""Model files that are refused."""

import pytest

from mercer import persistence


def refused(path):
    """The sentence that a file is refused with."""
    with pytest.raises(ValueError, match=r"m\.skops") as caught:
        persistence.load(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)
