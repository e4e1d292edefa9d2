"""The views that answer the usual questions with one short SELECT.

What belongs here: one SQL text per view. What a stored table is belongs to its module beside this file;
creating views belongs to `resources.warehouse`. A view is there once all the tables it reads are.
"""

from collections.abc import Mapping

KIND_ORDER = "list_position(['overall', 'category', 'guard'], kind)"
"""How rows of `prove.delta` stand: the whole, its parts, what must not get worse."""

VIEWS: Mapping[str, str] = {
    # Where does the real traffic go wrong, over all days? `example` is the newest failed conversation.
    "watch.map": """
        SELECT
            s.category, s.tool, s.tool_condition,
            count(*) AS n,
            count(s.failed) AS n_graded,
            count(*) FILTER (s.failed) AS failures,
            avg(s.failed::INT) AS failed_share,
            count(c.incomplete) AS n_incomplete,
            min(s.day) AS first_day,
            max(s.day) AS last_day,
            arg_max(s.conversation_id, (s.day, s.conversation_id)) FILTER (s.failed) AS example
        FROM watch.situations AS s
        JOIN watch.conversations AS c USING (day, conversation_id)
        GROUP BY ALL
        ORDER BY failures DESC, n DESC, s.category, s.tool, s.tool_condition
    """,
    # Since when is each pair of values planned, played, and really shown? Null: never so far.
    "simulate.coverage_so_far": """
        SELECT
            axis_a, value_a, axis_b, value_b,
            min(day) FILTER (planned) AS first_planned,
            min(day) FILTER (played > 0) AS first_played,
            min(day) FILTER (realised > 0) AS first_realised,
            sum(played)::BIGINT AS played,
            sum(realised)::BIGINT AS realised,
            max(day) AS last_day
        FROM simulate.coverage
        WHERE arm = 'all'
        GROUP BY ALL
        ORDER BY first_realised IS NOT NULL, axis_a, value_a, axis_b, value_b
    """,
    # What did each gate of each cut let through and stop, day by day?
    "train.gates": """
        SELECT day, cut, gate, count(*) AS rollouts, any_value(detail ORDER BY rollout_id) AS example
        FROM train.why_dropped
        GROUP BY day, cut, gate
        ORDER BY day, cut, gate <> 'kept', rollouts DESC, gate
    """,
    # What does the newest proof say: overall, per category, per guard (the share of attempts free of it)?
    "prove.latest": f"""
        SELECT
            day, kind, scope, before, after, difference, low, high, noise, n_tasks, k, n_changed,
            p_sign_flip, p_adjusted, tasks_needed, verdict, reason
        FROM prove.delta
        WHERE day = (SELECT max(day) FROM prove.delta)
        ORDER BY {KIND_ORDER}, scope
    """,
    # Does the agent get better from day to day, and which policy was promoted when?
    "prove.history": """
        SELECT
            d.day, d.before, d.after, d.difference, d.low, d.high, d.n_tasks, d.verdict,
            p.serving, p.candidate, p.promoted, p.reason
        FROM prove.delta AS d
        LEFT JOIN prove.promotion AS p USING (day)
        WHERE d.kind = 'overall'
        ORDER BY d.day
    """,
    # Where does a training row come from? Back to its grade, rollout, scenario, the cell of the six axes, the
    # weak spot that asked for it, the traffic day, and the policy and policy document of that day. A DPO row
    # stands with its chosen rollout; a rollout kept by several cuts stands once for each.
    "lineage.row": """
        WITH kept AS (
            SELECT day, 'sft' AS cut, row_id, rollout_id FROM train.sft
            UNION ALL SELECT day, 'dpo', row_id, chosen_rollout_id FROM train.dpo
            UNION ALL SELECT day, 'grpo', rollout_id, rollout_id FROM train.grpo
            UNION ALL SELECT day, 'reward_model', rollout_id, rollout_id FROM train.reward_model
        ),
        played AS (
            SELECT day, rollout_id, sample, policy_version FROM simulate.rollouts
            UNION SELECT day, rollout_id, sample, policy_version FROM simulate.probes
        )
        SELECT
            k.day, k.cut, k.row_id, k.rollout_id,
            g.reward, g.reason AS grade_reason, g.judge,
            r.sample, r.policy_version,
            s.scenario_id, s.task_id, s.category, s.arm,
            s.tool, s.policy_rule, s.stance, s.world_state, s.tool_condition, s.history,
            s.spot_id, w.category AS spot_category, w.tool AS spot_tool,
            w.failures AS spot_failures, w.n AS spot_n,
            a.policy_document_hash, a.tools_hash
        FROM kept AS k
        LEFT JOIN grade.grades AS g USING (day, rollout_id)
        LEFT JOIN played AS r USING (day, rollout_id)
        LEFT JOIN simulate.scenarios AS s ON s.day = k.day AND s.scenario_id = g.scenario_id
        LEFT JOIN watch.weak_spots AS w ON w.day = k.day AND w.spot_id = s.spot_id
        LEFT JOIN watch.agent AS a ON a.day = k.day
    """,
}
"""SELECT by qualified name, in the order they are created."""
