"""Exports: a published cut as the files that a trainer takes.

What belongs here: one module per format, pure functions from rows to rows, and the folder they are written
to. What does not: which rows there are (`train.cuts`), whether they may leave the house
(`train.publication`), and what a trainer makes of them (`train.trl`).
"""
