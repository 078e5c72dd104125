"""Models as files: where they come from, what they are, and their tokenizers.

Knows file formats; must not know torch, nor how a model is run.
Reading order: model_store, identity; gguf_file and safetensors_file; tokenizer.
"""
