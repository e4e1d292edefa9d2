"""Before and after on held-out tasks: pass rates, paired differences, intervals, verdicts."""
