"""Our continuous-batching engine, the only importer of torch.

Knows the scheduler and tensors; must not know HTTP.
Reading order: engine, runner, model, attention, kv_cache, weights, tokenizer.
"""
