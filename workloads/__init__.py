"""What to send and when. Knows the core; must not know who will answer.

Reading order: specs/*.toml, catalog, prompts, arrivals, schedule_file.
"""
