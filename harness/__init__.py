"""What a run is, how it is measured, judged and driven.

Knows how to send, record, analyse and compare; must not know how any engine works inside.
Reading order: core (the nouns), loadgen (sends), analyzer (counts), gate (decides), commands, cli.
"""
