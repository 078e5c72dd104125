"""The options that several commands share, with their help texts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

BASELINES = Path("baselines")
DEFAULT_MODEL = "smollm2-135m"

Model = Annotated[
    str, typer.Option("--model", help="A fetched model's name, a GGUF file, or a model folder.")
]
Slots = Annotated[int, typer.Option(help="Requests that the engine runs at once.")]
Dtype = Annotated[str, typer.Option(help="bfloat16 or float32.")]
Threads = Annotated[int | None, typer.Option(help="CPU threads of the engine; all by default.")]
PadPrompts = Annotated[
    bool, typer.Option(help="Whether batch policies pad prompts to the longest of their batch.")
]
WindowMs = Annotated[
    float | None,
    typer.Option("--batch-window-ms", help="How long static and dynamic wait for a full batch."),
]
Engines = Annotated[
    str,
    typer.Option(
        "--engine",
        help="What to measure, separated by commas: kinds (see `batchmark engines`), or names of "
        "engines.toml.",
    ),
]
EnginesFile = Annotated[
    Path | None,
    typer.Option("--engines", help="Where engines have names; ./engines.toml by default."),
]
Policies = Annotated[
    str | None,
    typer.Option("--policy", help="Policies, separated by commas; an engine's own by default."),
]
Port = Annotated[int | None, typer.Option(help="The server's port; any free one.")]

# How an engine is set. Where one cannot be told a knob, the plan says so.
ContextTokens = Annotated[
    int | None, typer.Option(help="Most tokens of a prompt and its answer together.")
]
BatchedTokens = Annotated[int | None, typer.Option(help="Most tokens of one step.")]
KvTokens = Annotated[int | None, typer.Option(help="Tokens that the KV cache holds.")]
ChunkedPrefill = Annotated[
    bool | None, typer.Option(help="Whether long prompts are cut into pieces.")
]
PrefixCache = Annotated[
    bool, typer.Option("--prefix-cache", help="Let the engine reuse prompts it has seen.")
]
Speculative = Annotated[
    str | None, typer.Option(help="Speculative decoding, in the engine's own words.")
]
ServedName = Annotated[str | None, typer.Option(help="The name that the model is served under.")]
Attach = Annotated[
    str | None, typer.Option("--attach", help="Measure the server at this URL; launch nothing.")
]
MetricsUrl = Annotated[str | None, typer.Option(help="The server's Prometheus page.")]
ApiKeyEnv = Annotated[
    str | None, typer.Option(help="The NAME of the environment variable that holds the key.")
]
Image = Annotated[
    str | None,
    typer.Option(help="Launch this container image; default and default-cpu are pinned ones."),
]
EngineArgs = Annotated[
    list[str] | None,
    typer.Option("--engine-arg", help="A word for the engine's command line; may be repeated."),
]

Out = Annotated[Path | None, typer.Option(help="A new folder; runs/<time> by default.")]
DeadlineS = Annotated[
    float | None, typer.Option(help="End each run, and each warm-up, after this long.")
]
Baselines = Annotated[
    Path, typer.Option("--baselines", help="Where named baselines are kept; meant for git.")
]
Allow = Annotated[
    list[str] | None,
    typer.Option(
        "--allow",
        metavar="KEY",
        help="What may differ all the same, such as cores; every output says so in its first line. "
        "May be repeated.",
    ),
]
Why = Annotated[str, typer.Option(help="The reason, kept with the baseline.")]
Slos = Annotated[
    list[str] | None,
    typer.Option(
        "--slo",
        help="A limit that a good request keeps to, such as ttft=500ms, tpot=50ms or e2e=10s; may "
        "be repeated. Goodput counts those that keep to all.",
    ),
]

# What is sent. A workload is named, or locked in a file with --schedule.
WorkloadName = Annotated[str, typer.Argument(help="A workload's name, or a TOML file.")]
NameUnlessLocked = Annotated[
    str | None,
    typer.Argument(
        metavar="WORKLOAD", help="A workload's name, or a TOML file; not needed with --schedule."
    ),
]
RepeatMix = Annotated[
    int | None, typer.Option(help="How often the mix is sent; 1 by default, not with --stages.")
]
Seed = Annotated[
    int | None, typer.Option(help="Prompts and due times; a fresh one by default, always printed.")
]

# When it is sent: one of --backlog, --concurrency, --rate, --stages and --schedule.
Backlog = Annotated[
    bool, typer.Option("--backlog", help="All requests are due at once; this is the default.")
]
Concurrency = Annotated[int | None, typer.Option(help="Closed loop: requests in flight at most.")]
Rate = Annotated[
    float | None, typer.Option("--rate", help="Arrivals over time: requests a second, on average.")
]
Arrivals = Annotated[
    str | None,
    typer.Option(
        help="Gaps at --rate: poisson (default), constant, or gamma with --cv or --burstiness."
    ),
]
Cv = Annotated[
    float | None,
    typer.Option(
        "--cv",
        help="Gamma gaps: standard deviation / mean. Higher is burstier; 1 is Poisson.",
    ),
]
Burstiness = Annotated[
    float | None,
    typer.Option(
        help="Gamma gaps by their shape, as vLLM and AIPerf name it: cv = 1/sqrt(burstiness). "
        "Lower is burstier; 1 is Poisson."
    ),
]
Stages = Annotated[
    str | None,
    typer.Option(
        help="Poisson arrivals at rates that change: rate:seconds, or from-to:seconds for a ramp, "
        "as in 1:30,2:30,1-4:60. The mix is sent as often as it takes."
    ),
]
Schedule = Annotated[
    Path | None,
    typer.Option(
        "--schedule",
        help="Send a workload locked by `batchmark workload lock`: same bytes, same due times, in "
        "every repeat.",
    ),
]
Speed = Annotated[
    float | None,
    typer.Option(help="Replay --schedule this many times as fast: 2 is in half the time."),
]
