"""From a run folder to numbers. Knows the core; must not know how a run was made or is shown.

Reading order: summary (the nouns), columns and reading (a run folder in memory), frame (as tables),
metric, metrics and step_metrics (the definitions), measures and utilisation (how each is computed),
steps, sessions, estimators; then validity with
grading, answer_checks, prompt_checks, client_checks, arrival_checks with flow, steady_checks with
steady, machine_checks, server_checks with server_samples, and run_cautions (the doubts); summarize
calls them all, and experiment cuts runs that are held against each other alike.

glossary explains every word: metrics, with metric_words (how each is made), term_words and
column_words (the others).

Apart from these: dialects (a run as other tools would number it), with number_dialect (its nouns),
dialect_rules, dialect_views and dialect_measures.
"""
