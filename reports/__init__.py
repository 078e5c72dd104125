"""Pictures and pages. Knows the core, the analyzer and the gate; must not compute a metric.

Reading order: page, method, figures, slots, svg, tables; waterfall_page, waterfall; duel_page,
pairs; sweep_page, capacity_page, curve; published; templates/.
"""
