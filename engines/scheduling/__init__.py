"""The pure scheduler shared by the in-house engine and the simulator. See DESIGN.md.

Knows counts of tokens; must not know token ids, torch, clocks, threads or logging.
Reading order: sequence, step, policies, limits, waiting, draft, blocks, memory, scheduler.
"""
