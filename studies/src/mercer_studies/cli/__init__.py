"""Commands that the studies add to ``mercer``: ``reproduce`` and ``report``."""
