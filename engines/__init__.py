"""Who answers. Knows the core; must not know how it will be measured or judged.

Reading order: registry, server_process, dialect; then scheduling, simulator, inhouse, serving.
"""
