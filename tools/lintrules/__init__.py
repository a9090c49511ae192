"""The rules behind tools/lint, a module per concept. Each rule yields (line, message)."""
