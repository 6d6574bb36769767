"""The `deltamirror` command: the engine without a cluster."""
