"""Grade every rollout: conduct rules, outcome, judge; and measure the judge itself."""
