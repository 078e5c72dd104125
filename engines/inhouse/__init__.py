"""Our continuous-batching engine: a thread that plans, computes and commits, step by step.

Knows the scheduler and tensors; must not know HTTP.
Reading order: engine, options, worker, runner, forward. Two ways to compute: native_forward with
native_rows and native/*.c (bfloat16 on a CPU), and torch_forward with model, attention, kv_cache
(everything else, and the reference). On a GPU that one decodes by bucketed_decode, with capture,
paged_attention and paged_kernel. Then weights, llama_config, work, ceilings.
"""
