from pathlib import Path

import polars as pl
import pytest

from while_pipeline.agents.policy import HEADS, base_weights, defect_of
from while_pipeline.constants import TRUST_CONTROLS
from while_pipeline.grade.controls import LABELS, control_labels
from while_pipeline.grade.judge import Case, RulesJudge, Verdict
from while_pipeline.grade.trust import judge_trust
from while_pipeline.project import load_project
from while_pipeline.records import Decision
from while_pipeline.simulate.axes import grid_of, situation
from while_pipeline.simulate.covering import cover
from while_pipeline.simulate.scenario import Scenario, ScenarioWriter

PROJECT = load_project(Path(__file__).parents[2] / "examples" / "telecom")
TOOLS, DOCUMENT = PROJECT.tools, PROJECT.policy_document
