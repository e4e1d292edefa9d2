"""while_pipeline: watch, simulate, grade, train, prove; then again with the next day's traffic."""

__version__ = "0.1.0"
