"""Who plays the agent: the embedded policy, an endpoint, or a Python callable."""
