from __future__ import annotations

import pytest
import torch
from torch.nn.functional import linear

from engines.inhouse import linear as module
from engines.inhouse.linear import make_linear


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", [1, 3, 40])
@pytest.mark.parametrize("has_bias", [False, True])
def test_a_reordered_matrix_multiplies_like_the_plain_one(
    dtype: torch.dtype, rows: int, has_bias: bool
) -> None:
    torch.manual_seed(0)
    weight, x = torch.randn(24, 64).to(dtype), torch.randn(rows, 64).to(dtype)
    bias = torch.randn(24).to(dtype) if has_bias else None

    with torch.inference_mode():
        torch.testing.assert_close(make_linear(weight, bias)(x), linear(x, weight, bias))


def test_a_torch_without_the_operators_multiplies_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_can_pack", lambda: False)
    weight, x = torch.ones(2, 4, dtype=torch.bfloat16), torch.ones(1, 4, dtype=torch.bfloat16)

    assert make_linear(weight)(x).tolist() == [[4.0, 4.0]]
