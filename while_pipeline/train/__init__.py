"""Cut training data, gate it, fit the next policy, keep the registry."""
