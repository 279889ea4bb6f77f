"""How values are checked, written and shown."""
