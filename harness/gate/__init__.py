"""Compares and decides. Knows the analyzer and the core; must not know how anything is drawn.

Reading order: comparability (may we?), comparison (how much?), baseline and baseline_store (against
what?), verdict; rules, metric_decision, decision and unpaired_gate (is it worse?), gate_calibration
(which margins can be held?); ablation, ablation_remarks and ablation_judging (what is each step
worth, and was it at work?); then formatting, cells, tables, comparison_table, decision_table and
ablation_table, which say all this in plain strings, and gate_outputs, which says it to other
programs; explain_table, which says one run in the numbers of other tools; glossary_table, which
explains the words of all these.
"""
