"""What really happened in a rollout: which axis values can be read back from the trace, and its signature.

Coverage counts these, not labels: a value that left no mark was not realised.
"""

from collections.abc import Mapping

from while_pipeline.grade.transcript import Transcript
