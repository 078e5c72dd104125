"""Compares and decides. Knows the analyzer and the core; must not know how anything is drawn.

Reading order: comparability (may we?), comparison (how much?), baseline (against what?), verdict;
ablation, ablation_remarks and ablation_judging (what is each step worth, and was it at work?);
then formatting, cells, tables, comparison_table and ablation_table, which say all this in plain
strings; explain_table, which says one run in the numbers of other tools.
"""
