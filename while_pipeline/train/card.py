"""The dataset card: a README that says to people, and in its header to the Hugging Face hub, what a cut is.

Every figure in it is from the manifest.
"""

from typing import Any

import yaml

from while_pipeline.train.manifest import ExportedFile, Manifest

_ABOUT = {
    "sft": "Conversations to imitate: of each scenario that was solved, one rollout that passed.",
    "sft_random": (
        "Conversations of the same scenarios as the `sft` cut, each drawn at random from all graded ones, "
        "passed or not: what training on unselected rows gives, to hold the `sft` cut against."
    ),
    "dpo": (
        "Preferences: two answers to the same prompt, cut at the first assistant turn that differs. The "
        "conversation of the chosen one passed, that of the rejected one did not."
    ),
    "grpo": "Scenarios that are solved sometimes: their group of rollouts, whole, passes in 20 to 80 %.",
    "reward_model": "Graded conversations, those that passed and those that failed.",
}
_SIZES = (
    (10**3, "n<1K"),
    (10**4, "1K<n<10K"),
    (10**5, "10K<n<100K"),
    (10**6, "100K<n<1M"),
    (10**7, "1M<n<10M"),
)
"""Size categories of the hub; the largest that a night could ever fill stands for what is beyond."""


def dataset_card(manifest: Manifest) -> str:
    """Markdown with the hub's YAML header: its `configs` let `load_dataset` find each side of the split."""
    header: dict[str, Any] = {
        "pretty_name": f"{manifest.cut} of {manifest.day}",
        "task_categories": ["text-generation"],
        "size_categories": [_size(manifest.rows)],
        "tags": ["tool-use", "customer-service", "synthetic", manifest.cut, manifest.format],
    }
    with_rows = [file for file in manifest.files if file.split is not None and file.rows]
    if with_rows:
        header["configs"] = [{"config_name": "default", "data_files": _data_files(with_rows)}]
    yaml_text = yaml.safe_dump(header, sort_keys=False, allow_unicode=True)
    return f"---\n{yaml_text}---\n\n{_body(manifest)}"


def _data_files(files: list[ExportedFile]) -> list[dict[str, Any]]:
    """Files per split under the hub's own names for them."""
    sides = {"train": "train", "valid": "validation"}
    found = [
        {"split": hub, "path": [file.name for file in files if file.split == side]}
        for side, hub in sides.items()
    ]
    return [one for one in found if one["path"]]


def _size(rows: int) -> str:
    return next((name for most, name in _SIZES if rows < most), "10M<n<100M")


def _checks(manifest: Manifest) -> str:
    return ", ".join(name.replace("_", " ") for name in manifest.checks) or "none"


def _body(manifest: Manifest) -> str:
    sides = [f"| {side.split} | {side.rows:,} | {side.tasks:,} |" for side in manifest.splits]
    files = [
        f"| `{file.name}` | {file.split or ''} | {file.rows:,} | {file.bytes:,} | `{file.sha256}` |"
        for file in manifest.files
    ]
    made_with = ", ".join(f"{one.name} {one.version}" for one in manifest.versions)
    parts = [
        f"# {manifest.cut} of {manifest.day}, format {manifest.format}",
        _ABOUT[manifest.cut],
        (
            f"{manifest.rows:,} rows of {manifest.tasks:,} tasks. The sides of the split share no task: two "
            "wordings of one task are on one side."
        ),
        "\n".join(["| split | rows | tasks |", "| --- | ---: | ---: |", *sides]),
        "## Where it comes from",
        (
            f"Customers and tools are simulated; no row is real traffic. The agent was policy "
            f"`{manifest.policy_version}`, the judge `{manifest.judge}`. Before it was written it passed "
            f"these checks: {_checks(manifest)}."
        ),
        "## Files",
        "\n".join(["| file | split | rows | bytes | sha256 |", "| --- | --- | ---: | ---: | --- |", *files]),
        f"Manifest `{manifest.id}`. Made with {made_with}.",
    ]
    return "\n\n".join(parts) + "\n"
