"""An OpenAI-compatible endpoint of the embedded policy, whose conversations are tomorrow's traffic."""
