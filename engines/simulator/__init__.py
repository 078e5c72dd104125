"""The same scheduler in virtual time. Knows a cost model; must not know torch or clocks.

Reading order: cost_model, simulate, figures; then least_squares, calibration.
"""
