"""From a run folder to numbers. Knows the core; must not know how a run was made or is shown.

Reading order: metrics (the definitions), estimators, frame, summary, validity.
"""
