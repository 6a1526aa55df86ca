"""Attacks on mercer: cases without end, drawn from a seed, run where a crash does no harm."""
