"""Where the members of a gang go; nothing is assumed here."""
