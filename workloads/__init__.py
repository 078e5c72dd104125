"""What to send and when. Knows the core; must not know who will answer.

Reading order: specs/*.toml, spec, catalog, arrivals, materialise, prompts, schedule_file.
"""
