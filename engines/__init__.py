"""Who answers. Knows the core; must not know how it will be measured or judged.

Reading order: registry, server_process, dialects; then scheduling, simulator, inhouse, serving.
"""
