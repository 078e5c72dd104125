"""One file per command: build, call, print. Knows everything; nobody imports it but the CLI."""
