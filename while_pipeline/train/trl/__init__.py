"""Training an open-weight checkpoint with TRL: supervised, preferences, groups, reward model.

What belongs here: everything that needs torch, transformers, trl, peft or datasets (the extra `train`). Only
`backend`, `player`, `rewards` and `stand_in` import them, and `run` imports those when called. What does not:
which rows there are (`train.cuts`), how they are written (`train.exports`), the embedded policy's fits.
"""
