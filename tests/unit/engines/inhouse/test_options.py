from __future__ import annotations

from typing import Any

import pytest
import torch

from engines.inhouse.kv_cache import CacheSize, bytes_per_token
from engines.inhouse.options import EngineOptions
from harness.core.errors import UsageError


def test_a_cache_in_bytes_has_whole_blocks_of_tokens_within_them(tiny: Any) -> None:
    each = bytes_per_token(tiny.config, torch.float32)
    options = EngineOptions(dtype="float32", kv_bytes=100 * each + 1, block_tokens=16)

    assert options.cache_size(tiny.config) == CacheSize(kv_blocks=6, block_tokens=16)


def test_a_cache_is_given_in_tokens_or_in_bytes(tiny: Any) -> None:
    options = EngineOptions(kv_bytes=10**6, kv_tokens=100)

    with pytest.raises(UsageError, match="--kv-tokens and --kv-bytes both say"):
        options.cache_size(tiny.config)


def test_unknown_weights_are_refused_with_those_that_are_known() -> None:
    with pytest.raises(UsageError, match="unknown weights 'int4'; choose from bfloat16, int8"):
        EngineOptions(weights="int4").dtype_and_device()
