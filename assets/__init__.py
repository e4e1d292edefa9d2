"""The assets: thin. Each reads tables, calls one engine function, stores a table with its metadata.

What the steps do belongs to the engine, `while_pipeline`; one file here per word.
"""
