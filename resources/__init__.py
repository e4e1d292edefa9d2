"""What assets reach the outside world through: the DuckDB warehouse, model endpoints, the user's project.

Thin Dagster resources belong here. What is computed belongs to `while_pipeline`.
"""
