"""Read the agent's real traffic and map what it handles well and what it does not."""
