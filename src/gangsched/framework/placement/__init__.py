"""Where pods go. Nothing here takes capacity."""
