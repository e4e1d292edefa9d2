"""Plan situations, search for the ones that break the agent, play rollouts against a mock world.

In the order of a night:

- plan: `axes`, `covering` (with `covering_grid`, `covering_pairs`, `covering_triples`), `plan`, `coverage`
- search: `search`, `arms`, `cells`, `mutate`
- a scenario: `scenario`, with its customer's words (`script`, `wording`, `phrasing`, `texture`) and its
  values (`values`, `texts`, `matching`, `consistent`)
- the customer: `customer`, `listening`, `customer_checks`
- the world: `world` (with `answers`, `changes`, `details`, `arithmetic`), `user_world`, `recorded`
- the rollout: `rollout`, `drive`, `detect`
- a night of them: `night`, `rows`, `shards`, `workers`
"""
