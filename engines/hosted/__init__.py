"""Third-party engines that are Python libraries, each hosted in a process behind engines.serving.

Knows the libraries, each in modules of its own, and the TokenEngine protocol; must not know HTTP.
Reading order: libraries, options; huggingface_static, static_batch; openvino_engine,
openvino_steps, openvino_genai; build.
"""
