"""How the metrics of a latency are made of its name: percentiles, mean and maximum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from harness.analyzer import measures
from harness.analyzer.measures import Unmeasured
from harness.analyzer.metric import Better, Metric
from harness.analyzer.within import bounded_percentile

PERCENTS = (50, 90, 99)


def latencies(name: str, title: str, definition: str) -> tuple[Metric, ...]:
    """Of the column `name`: percentiles over all requests, mean and maximum of good ones.

    The last two have no floor, so that a small run shows something.
    """
    function = partial(measures.request_percentile, column=name)
    ranked = (
        replace(metric, bounded=partial(bounded_percentile, column=name, percent=percent))
        for percent, metric in zip(
            PERCENTS, percentiles(name, title, definition, function), strict=True
        )
    )
    well = f"{definition}, of the requests that ended well"
    return (
        *ranked,
        Metric(
            f"{name}_mean",
            f"mean {title}",
            "s",
            Better.LOWER,
            f"Mean of {well}.",
            partial(measures.request_mean, column=name),
        ),
        Metric(
            f"{name}_max",
            f"longest {title}",
            "s",
            Better.LOWER,
            f"Maximum of {well}.",
            partial(measures.request_max, column=name),
        ),
    )


def percentiles(
    name: str, title: str, definition: str, function: Callable[..., float | Unmeasured]
) -> tuple[Metric, ...]:
    """One metric for each of PERCENTS; `function` takes a frame and the percent."""
    return tuple(
        Metric(
            f"{name}_p{percent}",
            f"{title} p{percent}",
            "s",
            Better.LOWER,
            f"Percentile {percent} of {definition}.",
            partial(function, percent=percent),
        )
        for percent in PERCENTS
    )


def refinements(
    name: str, title: str, definition: str, refines: str, unknown: str
) -> tuple[Metric, ...]:
    """The latencies of a column that not every engine fills; `unknown` is why when it has none."""
    return tuple(
        replace(
            metric,
            function=partial(measures.where_known, metric.function, column=name, unknown=unknown),
            refines=metric.name.replace(name, refines),
        )
        for metric in latencies(name, title, definition)
    )
