"""Pictures and pages. Knows the core, the analyzer and the gate; must not compute a metric.

Reading order: page, tables, figures, templates/.
"""
