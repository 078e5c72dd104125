"""The kinds of engines that come with batchmark: one line each, and the policies they have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engines.scheduling.policies import POLICY_NAMES


@dataclass(frozen=True, slots=True)
class Kind:
    """What a kind of engine is, in a line. `policies` are its batching policies, its own first."""

    title: str
    policies: tuple[str, ...] = ()


KINDS: Mapping[str, Kind] = {
    "inhouse": Kind(
        "batchmark's own engine: one set of kernels under every batching policy",
        ("continuous", *(name for name in POLICY_NAMES if name != "continuous")),
    ),
    "huggingface-static": Kind("Hugging Face generate() on padded static batches, in a process"),
    "openvino": Kind("OpenVINO GenAI's ContinuousBatchingPipeline, in a process"),
    "vllm": Kind("vLLM's OpenAI server (vllm serve)"),
    "tgi": Kind("Hugging Face Text Generation Inference; takes text, cannot ignore EOS"),
    "tensorrt-llm": Kind(
        "NVIDIA TensorRT-LLM (trtllm-serve); its policies are capacity policies, needs a GPU",
        ("GUARANTEED_NO_EVICT", "MAX_UTILIZATION", "STATIC_BATCH"),
    ),
    "sglang": Kind("SGLang's native route (sglang.launch_server)"),
    "llama-cpp": Kind("llama.cpp's llama-server, on GGUF files"),
    "transformers": Kind("transformers serve --continuous-batching; takes text"),
    "openai": Kind("any OpenAI-compatible server that runs already (--attach URL)"),
}
