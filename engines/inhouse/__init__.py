"""Our continuous-batching engine, the only importer of torch.

Knows the scheduler and tensors; must not know HTTP.
Reading order: engine, worker, runner, model, attention, kv_cache; then weights, llama_config,
gguf_file, tokenizer; model_store for where models come from.
"""
