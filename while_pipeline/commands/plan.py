"""`while-pipeline plan`: what so many held-out tasks can show, before any of them is played."""

import click


@click.command()
@click.option("--tasks", default=120, show_default=True, type=click.IntRange(min=1), help="Held-out tasks.")
@click.option("--k", default=4, show_default=True, type=click.IntRange(min=1), help="Samples of each.")
@click.option("--base", default=0.6, show_default=True, type=click.FloatRange(0, 1), help="Pass rate today.")
@click.option(
    "--effect",
    default=0.05,
    show_default=True,
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="A gain to find the number of tasks for.",
)
@click.option(
    "--varying",
    default=0.0,
    show_default=True,
    type=click.FloatRange(0, 1),
    help="Standard deviation over tasks of the true gain; 0: all gain alike.",
)
@click.option("--power", default=0.8, show_default=True, type=click.FloatRange(0.05, 1, max_open=True))
def plan(tasks: int, k: int, base: float, effect: float, varying: float, power: float) -> None:
    """Say what so many held-out tasks can show, and how many a gain of EFFECT needs.

    The first sentence is for the rule that decides here; the second is the published formula (Miller 2024,
    arXiv 2411.00640), which promises a little more.
    """
    from while_pipeline.prove import power as planner
    from while_pipeline.prove.variance import PairedComponents

    if varying:
        # A sample varies as it does at today's rate, in both arms: the gain is what is asked for.
        luck = base * (1 - base)
        parts = PairedComponents(varying**2, luck, luck)
        made = planner.plan(tasks, k=k, components=parts, target=effect, power=power)
        spread = {"omega2": parts.omega2, "sigma2_a": luck, "sigma2_b": luck}
        shows = planner.detectable_effect(tasks, **spread, k_a=k, k_b=k, power=power)
        needs = planner.tasks_needed(effect, **spread, k_a=k, k_b=k, power=power)
    else:
        if base + effect > 1:
            raise click.BadParameter(f"{base:g} + {effect:g} is no pass rate.", param_hint="--effect")
        made = planner.plan(tasks, k=k, base=base, target=effect, power=power)
        shows = planner.detectable_effect_from_rate(tasks, base=base, k=k, power=power)
        needs = planner.tasks_needed_from_rate(effect, base=base, k=k, power=power)
    click.echo(made.sentence)
    seen = f"{tasks} tasks show {100 * shows:.1f} points" if shows <= 1 else f"{tasks} tasks show no gain"
    click.echo(f"By the published formula {seen}; {100 * effect:g} points need {needs} tasks.")
