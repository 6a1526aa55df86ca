"""Engines: where shards of rows lie, and where work on them is done."""
