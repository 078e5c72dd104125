"""From a run folder to numbers. Knows the core; must not know how a run was made or is shown.

Reading order: summary (the nouns), metrics (the definitions), measures (how each is computed),
frame, steps, estimators; then validity and run_cautions (the doubts); summarize calls them all.
"""
