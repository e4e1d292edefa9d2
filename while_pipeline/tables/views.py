"""The views that answer the usual questions with one short SELECT.

What belongs here: one SQL text per view. What a stored table is belongs to its module beside this file;
creating views belongs to `resources.warehouse`. A view is there once all the tables it reads are.
"""

from collections.abc import Mapping

from while_pipeline.agents.policy import base_weights

KIND_ORDER = "list_position(['overall', 'category', 'guard'], kind)"
"""How rows of `prove.delta` stand: the whole, its parts, what must not get worse."""

_DECIDED = """
    SELECT
        day + 1 AS day, false AS by_hand, 0 AS position, 'promote' AS action, candidate AS policy_version,
        'gate' AS decided_by, false AS forced, reason, delta_id AS decision_id
    FROM prove.promotion WHERE promoted
    UNION ALL
    SELECT day, true, position, action, policy_version, decided_by, forced, reason, decision_id
    FROM prove.decisions
"""
"""What made a policy serve, and from which day: the gate's promotions, and what people decided."""

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
    # Which policy served from which day to which, and who decided it? `last_day` is null for what serves on.
    # A stretch begins with each decision, and where the project's own agent changed: nobody decided that.
    "train.serving": f"""
        WITH decided AS ({_DECIDED}),
        last AS (
            SELECT max(day) + 1 AS next_day, arg_max(policy_version, day) AS policy_version
            FROM watch.agent HAVING count(*) > 0
        ),
        days AS (
            SELECT day, policy_version FROM watch.agent
            UNION ALL
            SELECT next_day, NULL FROM last
        ),
        held AS (
            SELECT *, (
                SELECT arg_max(d, (d.day, d.by_hand, d.position)) FROM decided AS d WHERE d.day <= days.day
            ) AS d
            FROM days
        ),
        served AS (
            SELECT
                day, d,
                coalesce(
                    policy_version,
                    CASE WHEN d.day = held.day THEN d.policy_version END,
                    (SELECT policy_version FROM last)
                ) AS policy_version
            FROM held
        ),
        explained AS (
            SELECT day, policy_version, CASE WHEN d.policy_version = served.policy_version THEN d END AS d
            FROM served
        ),
        numbered AS (
            SELECT *, count(*) FILTER (begins) OVER (ORDER BY day) AS stretch
            FROM (
                SELECT
                    *,
                    policy_version IS DISTINCT FROM lag(policy_version) OVER (ORDER BY day)
                    OR d.decision_id IS DISTINCT FROM lag(d.decision_id) OVER (ORDER BY day) AS begins
                FROM explained
            )
        )
        SELECT
            min(day) AS first_day,
            nullif(max(day), (SELECT next_day FROM last)) AS last_day,
            policy_version, d.action, d.decided_by, d.forced, d.reason, d.decision_id
        FROM numbered
        GROUP BY stretch, policy_version, d
        ORDER BY first_day
    """,
    # Every policy version: where it comes from, what was proven of it, and where it stands. `promoted` serves
    # now, `retired` did or was to, `refused` was held back by the gate, a `candidate` is not decided on.
    # `own` is the agent as while.yaml describes it; of `served` only the days that it served are left: the
    # day that made it ran again and came to another.
    "train.registry": f"""
        WITH decided AS ({_DECIDED}),
        made AS (
            SELECT
                policy_version, day, 'fitted' AS origin, policy_version AS name, parent, method,
                NULL AS base_model, data_hash, day AS data_day, method AS data_cut,
                settings::VARCHAR AS settings, sha256(weights::VARCHAR) AS weights_hash,
                'train.policies.weights' AS place
            FROM train.policies
            UNION ALL
            SELECT
                policy_version, day, 'registered', name, parent, method, base_model, data_hash, data_day,
                data_cut, endpoint::VARCHAR, weights_hash,
                concat_ws('; ', model || ' at ' || (endpoint ->> 'base_url'), checkpoint)
            FROM train.registered
        ),
        known AS (
            FROM made
            UNION ALL
            SELECT
                policy_version, min(day), origin, CASE origin WHEN 'own' THEN model ELSE policy_version END,
                NULL, CASE origin WHEN 'own' THEN plays END, NULL, NULL, NULL, NULL,
                any_value(endpoint)::VARCHAR, sha256(any_value(weights)::VARCHAR),
                CASE
                    WHEN plays = 'embedded' THEN 'watch.agent.weights'
                    ELSE coalesce(model || ' at ' || any_value(endpoint ->> 'base_url'), 'while.yaml')
                END
            FROM (
                SELECT *, CASE
                    WHEN weights IS NULL AND endpoint IS NULL OR policy_version = '{base_weights().version}'
                    THEN 'own' ELSE 'served'
                END AS origin
                FROM watch.agent
            )
            WHERE policy_version NOT IN (SELECT policy_version FROM made)
            GROUP BY policy_version, origin, model, plays
        ),
        newest AS (
            FROM known
            QUALIFY row_number() OVER (PARTITION BY policy_version ORDER BY day DESC, origin DESC) = 1
        ),
        proven AS (
            SELECT
                p.candidate, p.day AS delta_day, p.delta_id, p.serving AS against, p.promoted, p.reason,
                d.before, d.after, d.difference, d.low, d.high, d.n_tasks, d.verdict
            FROM prove.promotion AS p
            LEFT JOIN prove.delta AS d ON d.day = p.day AND d.kind = 'overall'
            QUALIFY row_number() OVER (PARTITION BY p.candidate ORDER BY p.day DESC) = 1
        ),
        served AS (
            FROM train.serving
            QUALIFY row_number() OVER (PARTITION BY policy_version ORDER BY first_day DESC) = 1
        )
        SELECT
            n.policy_version, n.day, n.origin, n.name, n.parent, n.method, n.base_model,
            n.data_hash, n.data_day, n.data_cut, n.settings, n.weights_hash, n.place,
            p.delta_id, p.delta_day, p.against, p.before, p.after, p.difference, p.low, p.high, p.n_tasks,
            p.verdict,
            CASE
                WHEN s.first_day IS NOT NULL AND s.last_day IS NULL THEN 'promoted'
                WHEN s.first_day IS NOT NULL OR n.policy_version IN (SELECT policy_version FROM decided)
                    THEN 'retired'
                WHEN p.promoted IS NOT NULL THEN 'refused'
                ELSE 'candidate'
            END AS state,
            s.first_day AS serves_from, s.last_day AS served_until,
            coalesce(s.decided_by, CASE WHEN p.candidate IS NOT NULL THEN 'gate' END) AS decided_by,
            s.forced, coalesce(s.reason, p.reason) AS reason
        FROM newest AS n
        LEFT JOIN proven AS p ON p.candidate = n.policy_version
        LEFT JOIN served AS s USING (policy_version)
        ORDER BY n.day, n.origin <> 'own', n.policy_version
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
            SELECT day, 'sft' AS cut, split, row_id, rollout_id FROM train.sft
            UNION ALL SELECT day, 'sft_random', split, row_id, rollout_id FROM train.sft_random
            UNION ALL SELECT day, 'dpo', split, row_id, chosen_rollout_id FROM train.dpo
            UNION ALL SELECT day, 'grpo', split, rollout_id, rollout_id FROM train.grpo
            UNION ALL SELECT day, 'reward_model', split, rollout_id, rollout_id FROM train.reward_model
        ),
        played AS (
            SELECT day, rollout_id, sample, policy_version FROM simulate.rollouts
            UNION SELECT day, rollout_id, sample, policy_version FROM simulate.probes
        )
        SELECT
            k.day, k.cut, k.split, k.row_id, k.rollout_id,
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
