"""Sends requests and stamps what comes back. Knows the core; must not know any engine.

Reading order: session (the page that tells the story), pacing, wire, recorder; then levels and
calibration (what this client can take).
"""
