"""The nouns. Standard library only, pure except clock.py and rundir.py.

Reading order: workload, engine, record, manifest, rundir, plan; then cautions and errors.
"""
