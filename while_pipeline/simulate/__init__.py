"""Plan situations, search for the ones that break the agent, play rollouts against a mock world."""
