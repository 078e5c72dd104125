"""Any OpenAI-compatible server that somebody else has started: attached to, never launched.

Only what the API itself promises is asked for: the final usage counts the tokens. Counters are read
where --metrics-url says, or at /metrics, by whichever engine's names are found there.
"""

from __future__ import annotations

from engines.adapter import Adapter, Speech
from engines.asking import Asker
from engines.dialects.openai_completions import OpenAICompletionsDialect
from harness.core.engine import Capabilities, EngineFacts, ExactLength, FirstEvent


def _dialect(speech: Speech) -> OpenAICompletionsDialect:
    return OpenAICompletionsDialect(key=speech.key)


async def _facts(asker: Asker) -> EngineFacts:
    """What /v1/models says of the model that is measured; its version is not guessed."""
    spec = asker.spec
    models = await asker.models()
    wanted = [row for row in models if row["id"] in (spec.served_name, spec.model)] or [*models]
    if len(wanted) != 1:
        return EngineFacts()
    (model,) = wanted
    return EngineFacts(model=str(model["id"]), context_tokens=model.get("max_model_len"))


OPENAI = Adapter(
    kind="openai",
    program=None,
    capabilities=Capabilities(
        takes_token_ids=True,
        counts="final usage",
        exact_length=ExactLength.CONTINUES_PAST_EOS,
        first_event=FirstEvent.TOKEN,
        has_metrics=True,
        has_prefix_cache=True,
        refuses_unknown_fields=False,
    ),
    dialect=_dialect,
    knobs={},
    facts=_facts,
    health="/v1/models",
    reads="any",
)
