"""Our continuous-batching engine, on torch.

Knows the scheduler and tensors; must not know HTTP.
Reading order: engine, worker, runner, model, attention, kv_cache; then weights, llama_config.
"""
